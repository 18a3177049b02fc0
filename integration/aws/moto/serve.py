"""Serves moto on a free loopback port until standard input is closed."""

import json
import os
import sys
import threading
from datetime import datetime, timezone

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.ssm import models as ssm
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass


# Public parameters of AWS that moto does not have and lets nobody put.
public = json.loads(os.environ.get("PUBLIC_PARAMETERS", "{}"))
load = ssm.ParameterDict._check_loading_status


def load_public(self, key):
    load(self, key)
    if not self.__dict__.setdefault("public_loaded", False):
        self.public_loaded = True
        for name, value in public.items():
            super(ssm.ParameterDict, self).__getitem__(name).append(
                ssm.Parameter(
                    account_id=self.account_id,
                    name=name,
                    value=value,
                    parameter_type="String",
                    description="",
                    allowed_pattern=None,
                    keyid=None,
                    last_modified_date=datetime.now(timezone.utc),
                    version=1,
                    data_type="text",
                )
            )


ssm.ParameterDict._check_loading_status = load_public


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
server = make_server(
    "127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True, request_handler=Quiet
)
print("READY", server.server_port, flush=True)
server.serve_forever()
