package sdk

import (
	plugin "github.com/hashicorp/go-plugin"
)

// ProtocolVersion is the major version of the protocol that this SDK serves: the
// packages weir.*.v1.
const ProtocolVersion = 1

// PluginName is the one name in the plugin set.
const PluginName = "strategy"

// Handshake keeps people from starting a strategy by hand and wondering. It is no
// protection.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "WEIR_STRATEGY",
	MagicCookieValue: "d2VpciBzdHJhdGVneSBwcm90b2NvbA",
}

// ClientPlugins is the plugin set of a host, by protocol version.
func ClientPlugins() map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &grpcPlugin{}}}
}
