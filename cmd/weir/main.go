// Command weir answers questions about scaling: what would be bought, what would be
// given back, what an event would do. It works on files alone.
package main

import (
	"os"
	_ "time/tzdata" // for budgets in a time zone, also where the system has no such files
)

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Environ()))
}
