// Package repair finds nodes that are broken for good.
//
// What comes in is the nodes of a cluster with the conditions that their kubelets and
// monitoring agents report, and policies: which condition in which state is tolerated
// for how long. What goes out is whom to replace and why, who would have to be replaced
// but is not because too many are broken at once, and when to look again.
//
// Pure. It replaces nobody itself: the executor does, by force, for a broken node cannot
// take part in a drain. It must not decide by anything but conditions.
package repair
