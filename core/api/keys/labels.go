package keys

import "strings"

// IsEphemeralTaint reports whether a taint is known to go away by itself before a node is initialized.
func IsEphemeralTaint(key, effect string) bool {
	switch key {
	case TaintNotReady:
		return effect == EffectNoSchedule || effect == EffectNoExecute
	case TaintUnreachable, TaintUninitialized:
		return effect == EffectNoSchedule
	case TaintUnregistered:
		return effect == EffectNoExecute
	}
	return strings.HasPrefix(key, TaintReadinessPrefix)
}
