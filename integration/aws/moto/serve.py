"""Serves moto on a free loopback port until standard input is closed."""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
server = make_server(
    "127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True, request_handler=Quiet
)
print("READY", server.server_port, flush=True)
server.serve_forever()
