package builtin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/plugins/capacitymix"
	"github.com/weir-project/weir/plugins/costoptimal"
	"github.com/weir-project/weir/plugins/firstfit"
	"github.com/weir-project/weir/plugins/resilient"
	"github.com/weir-project/weir/plugins/savings"
	"github.com/weir-project/weir/plugins/sdk"
)

// The strategies that are used where the configuration names none, and that answer
// in place of others.
const (
	DefaultInstanceSelection = costoptimal.Name
	DefaultConsolidation     = savings.Name
)

var constructors = map[string]func() sdk.Strategy{
	capacitymix.Name: func() sdk.Strategy { return capacitymix.New() },
	costoptimal.Name: func() sdk.Strategy { return costoptimal.New() },
	firstfit.Name:    func() sdk.Strategy { return firstfit.New() },
	resilient.Name:   func() sdk.Strategy { return resilient.New() },
	savings.Name:     func() sdk.Strategy { return savings.New() },
}

// Names lists the built-in strategies in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(constructors))
	for n := range constructors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Has says whether a strategy of this name is built in.
func Has(name string) bool { _, ok := constructors[name]; return ok }

// New makes a built-in strategy with its defaults. The error lists the names.
func New(name string) (sdk.Strategy, error) {
	f, ok := constructors[name]
	if !ok {
		return nil, fmt.Errorf("no built-in strategy %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return f(), nil
}
