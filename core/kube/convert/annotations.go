package convert

import "strings"

// KeepAnnotation says whether planning or execution reads a pod's annotation; the
// others may be dropped to save memory.
func KeepAnnotation(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	switch domain {
	case "karpenter.sh", "weir.dev", "controller.kubernetes.io", "kubernetes.io":
		return true
	}
	return false
}
