package ledger_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/ledgertest"
	"github.com/weir-project/weir/integration/aws/moto"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// moto does about 150 calls a second, and most of the time is waiting: for it, or between tries.
	for name, value := range map[string]string{"rapid.checks": "20", "test.parallel": "8"} {
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
		if given {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(moto.Shared(m))
}

// faults fail the calls on one table only: the others of the suite run beside it.
func faults(server *moto.Server, table string) ledgertest.Faults {
	all := moto.On("", `"`+table+`"`)
	writes := func(c moto.Call) bool { return all(c) && c.Op != "GetItem" && c.Op != "Query" }
	var throttle, away *moto.Rule
	return ledgertest.Faults{
		LoseAnswers: func(n int) { server.Order(n, moto.CutAfter, writes) },
		Throttle: func(n int) {
			if throttle != nil {
				throttle.End()
			}
			throttle = server.Order(n, moto.Throttled, all)
		},
		Away: func(b bool) {
			if b {
				away = server.Order(-1, moto.CutBefore, all)
			} else {
				away.End()
			}
		},
	}
}

func TestLedgerSuite(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	var tables sync.Map // by store
	ledgertest.Run(t, ledgertest.Backend{
		New: func(t testing.TB) ledger.Store {
			table := server.Table(t)
			s := server.Ledger(t, table)
			tables.Store(s, table)
			return s
		},
		Reopen: func(t testing.TB, s ledger.Store) ledger.Store {
			table, _ := tables.Load(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return server.Ledger(t, table.(string))
		},
		Second: func(t testing.TB, s ledger.Store) ledger.Store {
			table, _ := tables.Load(s)
			return server.Ledger(t, table.(string))
		},
		Faulty: func(t testing.TB) (ledger.Store, ledgertest.Faults) {
			table := server.Table(t)
			return server.Ledger(t, table), faults(server, table)
		},
	})
}
