//go:build !race

package strategy

// raceDetector: see the other file.
const raceDetector = false
