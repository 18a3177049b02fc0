// Command weir-strategy runs one of Weir's own strategies as a plugin process:
//
//	weir-strategy cost-optimal
//
// It is started by the host, which speaks to it over gRPC; started by hand it only
// says so. The name is the one argument; everything else comes by Configure. A link
// or a copy that bears the name of a strategy needs no argument, so that it can be
// given wherever the path of a strategy is asked for.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

func main() {
	name := filepath.Base(os.Args[0])
	switch {
	case len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-"):
		name = os.Args[1]
	case len(os.Args) != 1 || !builtin.Has(name):
		fmt.Fprintf(os.Stderr, "weir-strategy runs a built-in strategy as a plugin of Weir's strategy host.\nusage: weir-strategy %s\n", strings.Join(builtin.Names(), "|"))
		os.Exit(2)
	}
	strategy, err := builtin.New(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-strategy:", err)
		os.Exit(2)
	}
	sdk.Serve(strategy)
}
