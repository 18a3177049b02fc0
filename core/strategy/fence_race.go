//go:build race

package strategy

// raceDetector says that this program maps terabytes of shadow memory, as the test
// binary that stands for strategies then does too: there is no ceiling for that.
const raceDetector = true
