//go:build !unix

package measure

// CPUSeconds is not known on this system.
func CPUSeconds() float64 { return 0 }
