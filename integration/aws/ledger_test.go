package aws_test

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
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given { // moto does about 150 calls a second
		if err := flag.Set("rapid.checks", "20"); err != nil {
			panic(err)
		}
	}
	os.Exit(moto.Shared(m))
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
	})
}
