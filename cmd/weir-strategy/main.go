// Command weir-strategy runs one of Weir's own strategies as a plugin process:
//
//	weir-strategy cost-optimal
//
// It is started by the host, which speaks to it over gRPC; started by hand it only
// says so. The name is the one argument; everything else comes by Configure.
package main

import (
	"fmt"
	"os"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "-h" || os.Args[1] == "--help" {
		fmt.Fprintf(os.Stderr, "usage: weir-strategy NAME\n\nRuns a built-in strategy as a plugin of Weir's strategy host.\nNames: %v\n", builtin.Names())
		os.Exit(2)
	}
	strategy, err := builtin.New(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-strategy:", err)
		os.Exit(2)
	}
	sdk.Serve(strategy)
}
