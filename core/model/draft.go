package model

// Draft is a node that a strategy wants to be bought, with the pods on it. It says
// nothing of whether that is legal.
type Draft struct {
	Pool     *Pool
	Offering *Offering
	Pods     []*Pod
}
