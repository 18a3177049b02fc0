package dynamo

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/ledger"
)

// TestNamesAgreeWithTheStack compares the names with those of the app that makes the
// table, which is a module of its own.
func TestNamesAgreeWithTheStack(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "../../../infra/cdk/weircdk/ledgertable.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					got[v.Names[0].Name] = s
				}
			}
		}
		return true
	})
	want := map[string]string{
		"AttributePartition": AttributePartition, "AttributeSort": AttributeSort, "AttributeInstance": AttributeInstance,
		"AttributeExpires": AttributeExpires, "IndexInstance": IndexInstance,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constants of infra/cdk (-here +there):\n%s", diff)
	}
}

// stored is what the table holds after a first write of the item.
func stored(it ledger.Item) attributes {
	u := newUpdate(it, 0, "w1", time.Time{})
	out := attributes{AttributePartition: text(it.Partition), AttributeSort: text(it.Sort), attributeVersion: number(it.Version)}
	for name, value := range map[string]string{
		attributeData: ":data", AttributeInstance: ":instance", attributeUntil: ":until", AttributeExpires: ":expires", attributeWrite: ":write", attributeBefore: ":none",
	} {
		if v, ok := u.values[value]; ok {
			out[name] = v
		}
	}
	return out
}

func TestItemsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		it := ledger.Item{
			Key:     ledger.Key{Partition: rapid.StringN(1, 20, -1).Draw(r, "partition"), Sort: rapid.StringN(1, 20, -1).Draw(r, "sort")},
			Version: rapid.Int64Min(1).Draw(r, "version"), Instance: rapid.StringN(0, 20, -1).Draw(r, "instance"),
			Data: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(r, "data"),
		}
		if rapid.Bool().Draw(r, "expires") {
			it.Expires = time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(r, "second"), rapid.Int64Range(0, 999999999).Draw(r, "nanosecond")).UTC()
		}
		if it.Expires.Equal(time.Time{}) {
			it.Expires = time.Time{}
		}
		got, err := decode(stored(it))
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(it, got); diff != "" {
			r.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRemovalComesLater: DynamoDB removes what no reader has seen for an hour, so that
// nobody who remembers its version meets a new record of the same one.
func TestRemovalComesLater(t *testing.T) {
	t.Parallel()
	for _, nanos := range []int64{0, 1, 999_999_999} {
		at := time.Unix(1_800_000_000, nanos)
		n, err := strconv.ParseInt(removal(at).(*types.AttributeValueMemberN).Value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Unix(n, 0).Sub(at); late < ledger.SweepGrace || late >= ledger.SweepGrace+time.Second {
			t.Errorf("removed %v after it expires, expected %v", late, ledger.SweepGrace)
		}
	}
}

func TestDamagedItemsAreTold(t *testing.T) {
	t.Parallel()
	it := ledger.Item{Key: ledger.Key{Partition: "p", Sort: "a"}, Version: 1, Instance: "i-1", Expires: time.Unix(1, 0), Data: []byte(`1`)}
	for name, value := range map[string]types.AttributeValue{
		AttributePartition: nil, AttributeSort: number(1), attributeVersion: text("1"), attributeData: number(1),
		AttributeInstance: &types.AttributeValueMemberBOOL{}, attributeUntil: &types.AttributeValueMemberN{Value: "1.5"},
	} {
		held := stored(it)
		held[name] = value
		if value == nil {
			delete(held, name)
		}
		if _, err := decode(held); err == nil || !strings.Contains(err.Error(), "attribute "+name) {
			t.Errorf("%s is %v: error %v", name, value, err)
		}
	}
}

func TestOwnWritesAreKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held attributes
		want int64
		ok   bool
	}{
		"the last write":         {attributes{"version": number(4), "write": text("mine"), "writeBefore": text("other")}, 4, true},
		"somebody wrote over it": {attributes{"version": number(5), "write": text("other"), "writeBefore": text("mine")}, 4, true},
		"somebody else's":        {attributes{"version": number(5), "write": text("other"), "writeBefore": text("another")}, 0, false},
		"nothing is told":        {nil, 0, false},
	} {
		if got, ok := done(tt.held, "mine"); got != tt.want || ok != tt.ok {
			t.Errorf("%s: version %d, %v; want %d, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestTransactionsThatAreTriedAgain(t *testing.T) {
	t.Parallel()
	for codes, again := range map[string]bool{
		"None TransactionConflict": true, "ThrottlingError None": true, "ProvisionedThroughputExceeded": true,
		"ConditionalCheckFailed TransactionConflict": false, "None ValidationError": false, "None None": false, "SomethingNew": false,
	} {
		var reasons []types.CancellationReason
		for code := range strings.FieldsSeq(codes) {
			reasons = append(reasons, types.CancellationReason{Code: aws.String(code)})
		}
		err := &types.TransactionCanceledException{CancellationReasons: reasons}
		if got := newRetryer().IsErrorRetryable(err); got != again {
			t.Errorf("%s: tried again %v, want %v", codes, got, again)
		}
	}
	if err := explain(t.Context(), errors.New("x")); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("an error that nobody knows: %v", err)
	}
}
