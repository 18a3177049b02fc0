"""calm-spot: offerings that were interrupted or short of capacity cost more."""

from weir.instanceselection.v1 import instanceselection_pb2 as selection
from weir_plugin import serve


class CalmSpot:
    name, version = "calm-spot", "1.0.0"
    summary = "market price, dearer for each interruption and shortage that is remembered"
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "interruption": {"type": "number", "minimum": 0, "maximum": 10, "default": 0.1, "description": "part of the price added for each"},
            "shortage": {"type": "number", "minimum": 0, "maximum": 10, "default": 0.05, "description": "part of the price added for each"},
            "feePerNode": {"type": "number", "minimum": 0, "maximum": 1000, "default": 0.02, "description": "USD per hour"},
        },
    }

    def configure(self, settings):
        self.settings = settings

    def price(self, request, catalogue):
        s = self.settings  # once: another configuration may come meanwhile
        dearer = {h.offering: 1 + s["interruption"] * h.interruptions + s["shortage"] * h.shortages for h in request.health}
        price = [usd * dearer.get(offering, 1) for offering, usd in enumerate(request.usd_per_hour)]
        answer = selection.PriceResponse()
        for pool in request.pools:
            fee = s["feePerNode"] + pool.volumes_usd_per_hour
            answer.pools.add(usd_per_hour=[price[o] for o in pool.offerings], fee_usd_per_node_hour=fee)
        return answer


if __name__ == "__main__":
    serve(CalmSpot())
