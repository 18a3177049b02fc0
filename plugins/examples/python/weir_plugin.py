"""Serves a strategy for Weir over plain gRPC.

A strategy is an object with

    name, version, summary   texts
    schema                   JSON Schema of its settings, as a dict
    configure(settings)      takes a dict; raises ConfigError; {} means defaults
    price(request, catalogue) -> PriceResponse

and its program ends with serve(strategy). It then can be reached in two ways:

* over a unix socket that --socket or WEIR_STRATEGY_SOCKET names, without TLS: how it
  runs in a container of its own beside the scaler;
* as a child process with the handshake of go-plugin and mutual TLS, where the host sets
  the environment for it: how `weir strategy test` and `weir simulate` run it.
"""

import argparse
import asyncio
import base64
import contextlib
import datetime
import json
import os
import signal
import socket
import ssl
import stat
import sys
import tempfile
import threading
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import empty_pb2
from weir.instanceselection.v1 import instanceselection_pb2 as selection
from weir.strategy.v1 import strategy_pb2 as strategies

COOKIE = ("WEIR_STRATEGY", "d2VpciBzdHJhdGVneSBwcm90b2NvbA")
CORE, PROTOCOL = 1, 1  # go-plugin's handshake, and the major version of weir.*.v1
MAX_MESSAGE = 16 << 20
KEPT_CATALOGUES = 2  # the one in force, and the one before for calls under way


class ConfigError(Exception):
    """A setting that is wrong: its field, and what was expected."""

    def __init__(self, field, message):
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


class Catalogue:
    """What can be bought, with its texts looked up. Offerings go by their index."""

    def __init__(self, message):
        text = message.texts
        types = []
        for t in message.types:
            words = [text[i] for i in t.label_texts]
            labels = dict(zip(words[::2], words[1::2], strict=True))
            types.append((text[t.name_text], labels, t))
        self.hash = message.hash
        self.offerings = [Offering(*types[o.type], text[o.zone_text], text[o.capacity_type_text]) for o in message.offerings]


class Offering:
    """A machine type in a zone as a capacity type (on-demand, spot or reserved)."""

    def __init__(self, type_name, labels, machine, zone, capacity_type):
        self.type, self.labels, self.machine, self.zone, self.capacity_type = type_name, labels, machine, zone, capacity_type


class Servicer:
    """Answers the calls of weir.strategy.v1 and weir.instanceselection.v1."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.lock = threading.Lock()  # guards catalogues
        self.catalogues = {}  # by hash, oldest first

    def describe(self, _request, _context):
        s = self.strategy
        price = strategies.Contract(kind=strategies.KIND_INSTANCE_SELECTION, version=PROTOCOL, levels=[strategies.LEVEL_PRICE])
        return strategies.DescribeResponse(
            name=s.name, version=s.version, summary=s.summary, config_schema=json.dumps(s.schema), deterministic=True, contracts=[price]
        )

    def configure(self, request, context):
        catalogue = None
        if request.HasField("catalogue"):
            try:
                catalogue = Catalogue(request.catalogue)
            except (IndexError, ValueError) as e:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"catalogue: {e}")
        if request.HasField("config_json"):
            try:
                self.strategy.configure(settings(request.config_json, self.strategy.schema))
            except ConfigError as e:
                return strategies.ConfigureResponse(errors=[strategies.ConfigError(field=e.field, message=e.message)])
        if catalogue:
            with self.lock:
                self.catalogues.pop(catalogue.hash, None)
                self.catalogues[catalogue.hash] = catalogue
                while len(self.catalogues) > KEPT_CATALOGUES:
                    del self.catalogues[next(iter(self.catalogues))]
        return strategies.ConfigureResponse()

    def price(self, request, context):
        with self.lock:
            catalogue = self.catalogues.get(request.catalogue_hash)
        if catalogue is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the catalogue is not known here")
        size = len(catalogue.offerings)
        if len(request.usd_per_hour) != size:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{len(request.usd_per_hour)} prices for {size} offerings")
        if any(o >= size for pool in request.pools for o in pool.offerings):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"an offering beyond the catalogue's {size}")
        return self.strategy.price(request, catalogue)

    def handlers(self):
        def call(method, request, response):
            return grpc.unary_unary_rpc_method_handler(method, request.FromString, response.SerializeToString)

        return [
            grpc.method_handlers_generic_handler(
                "weir.strategy.v1.StrategyService",
                {
                    "Describe": call(self.describe, strategies.DescribeRequest, strategies.DescribeResponse),
                    "Configure": call(self.configure, strategies.ConfigureRequest, strategies.ConfigureResponse),
                },
            ),
            grpc.method_handlers_generic_handler(
                "weir.instanceselection.v1.InstanceSelectionService",
                {"Price": call(self.price, selection.PriceRequest, selection.PriceResponse)},
            ),
        ]


KINDS = {"number": (int, float), "integer": int, "string": str, "boolean": bool, "object": dict, "array": list}


def settings(text, schema):
    """The settings of a JSON text, held against the schema's properties."""
    try:
        got = json.loads(text)
    except ValueError as e:
        raise ConfigError("", f"is no JSON: {e}") from e
    if not isinstance(got, dict):
        raise ConfigError("", "want an object")
    for field, value in got.items():
        p = schema["properties"].get(field)
        if p is None:
            raise ConfigError(field, "unknown field")
        kind = p["type"]
        if not isinstance(value, KINDS[kind]) or isinstance(value, bool) != (kind == "boolean"):
            raise ConfigError(field, f"want {kind}, got {type(value).__name__}")
        if kind in ("number", "integer") and not p.get("minimum", value) <= value <= p.get("maximum", value):
            raise ConfigError(field, f"want {p.get('minimum', 'any')} to {p.get('maximum', 'any')}")
    return {f: p["default"] for f, p in schema["properties"].items()} | got


def serve(strategy):
    """Serves until the host, or SIGTERM, ends it."""
    parser = argparse.ArgumentParser(description=strategy.summary)
    parser.add_argument("--socket", metavar="PATH", default=os.environ.get("WEIR_STRATEGY_SOCKET"), help="unix socket to serve at, for a container of its own")
    path = parser.parse_args().socket
    if not path and os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit("This is a strategy for Weir: try `weir strategy test` on it, or give it a --socket.")
    with contextlib.ExitStack() as stack:
        stopped = threading.Event()
        for number in signal.SIGTERM, signal.SIGINT:
            signal.signal(number, lambda *_: stopped.set())
        server = start(strategy, stopped)
        if path:
            listen(server, path)
            server.start()
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ.get("PLUGIN_UNIX_SOCKET_DIR")))
            listen(server, os.path.join(folder, "inner"))
            server.start()
            handshake(folder, os.path.join(folder, "inner"))
        stopped.wait()
        server.stop(grace=2).wait()


def start(strategy, stopped):
    """A server with the strategy's services and those that go-plugin's host looks for."""
    limits = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=limits)
    serving = b"\x08\x01"  # HealthCheckResponse{status: SERVING}

    def shutdown(_request, _context):
        stopped.set()
        return empty_pb2.Empty()

    plugin = [
        ("grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(lambda *_: serving)}),
        (
            "plugin.GRPCController",
            {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown, empty_pb2.Empty.FromString, empty_pb2.Empty.SerializeToString)},
        ),
    ]
    server.add_generic_rpc_handlers([*Servicer(strategy).handlers(), *(grpc.method_handlers_generic_handler(*p) for p in plugin)])
    return server


def listen(server, path):
    """Serves at a socket that its owner and the group of the folder may use."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            sys.exit(f"{path} is there and is no socket")
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == 0:
                sys.exit(f"somebody serves at {path} already")
        os.unlink(path)
    old = os.umask(0o117)  # the socket is made with the right mode
    try:
        server.add_insecure_port("unix:" + path)
    finally:
        os.umask(old)


def handshake(folder, inner):
    """Opens the door with mutual TLS, and prints the line that tells the host where.

    go-plugin's host has a certificate on the curve P-521, which gRPC's own TLS does not
    accept from clients; Python's does. So Python ends the TLS and hands the bytes on.
    """
    key, certificate = make_certificate()
    with tempfile.NamedTemporaryFile() as pem:
        pem.write(key + certificate.public_bytes(serialization.Encoding.PEM))
        pem.flush()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem.name)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=os.environ["PLUGIN_CLIENT_CERT"])
    context.set_alpn_protocols(["h2"])
    outer = os.path.join(folder, "outer")
    ready = threading.Event()
    threading.Thread(target=asyncio.run, args=(relay(context, outer, inner, ready),), daemon=True).start()
    ready.wait()
    der = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode().rstrip("=")
    print(f"{CORE}|{PROTOCOL}|unix|{outer}|grpc|{der}", flush=True)


async def relay(context, outer, inner, ready):
    async def pump(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader, writer):
        there, back = await asyncio.open_unix_connection(inner)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_unix_server(connected, outer, ssl=context)
    # who fails the TLS is turned away, and that is all there is to say
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    ready.set()
    async with server:
        await server.serve_forever()


def make_certificate():
    """A key and a certificate for this process alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), certificate
