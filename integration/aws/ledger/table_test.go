package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/dynamo"
	"github.com/weir-project/weir/integration/aws/moto"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTableOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	for name, tt := range map[string]struct {
		change func(*dynamodb.CreateTableInput)
		ttl    string
		want   []string // in the error; none = no error
	}{
		"as it should be": {func(*dynamodb.CreateTableInput) {}, "expires", nil},
		"other partition key": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions[0].AttributeName, in.KeySchema[0].AttributeName = aws.String("id"), aws.String("id")
		}, "expires", []string{"its key is HASH id (S), RANGE sk (S), expected HASH pk (S), RANGE sk (S)"}},
		"sort key is a number": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions[1].AttributeType = types.ScalarAttributeTypeN
		}, "expires", []string{"RANGE sk (N)"}},
		"no sort key": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions[:1:1], in.AttributeDefinitions[2])
			in.KeySchema = in.KeySchema[:1]
		}, "expires", []string{"its key is HASH pk (S), expected"}},
		"no index": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions, in.GlobalSecondaryIndexes = in.AttributeDefinitions[:2], nil
		}, "expires", []string{"no global secondary index named instance"}},
		"index with a sort key": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].KeySchema = append(in.GlobalSecondaryIndexes[0].KeySchema, types.KeySchemaElement{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange})
		}, "expires", []string{"the key of its index instance is HASH instance (S), RANGE sk (S)"}},
		"index leaves attributes out": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].Projection.ProjectionType = types.ProjectionTypeKeysOnly
		}, "expires", []string{"expected the projection ALL"}},
		"no time to live":         {func(*dynamodb.CreateTableInput) {}, "", []string{"its time to live is off, expected on, with the attribute expires"}},
		"time to live of another": {func(*dynamodb.CreateTableInput) {}, "ttl", []string{"reads the attribute ttl, expected expires"}},
		"everything wrong is told": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions, in.GlobalSecondaryIndexes = in.AttributeDefinitions[:2], nil
			in.AttributeDefinitions[1].AttributeType = types.ScalarAttributeTypeB
		}, "", []string{"RANGE sk (B)", "no global secondary index", "time to live is off"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := moto.TableInput("shape-" + strings.ReplaceAll(name, " ", "-"))
			tt.change(in)
			server.MakeTable(t, in, tt.ttl)
			warnings, err := server.Ledger(t, *in.TableName).Check(t.Context())
			if errors.Is(err, dynamo.ErrTable) != (tt.want != nil) || (err != nil) != (tt.want != nil) || len(warnings) > 0 {
				t.Errorf("error %v, warnings %v", err, warnings)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), *in.TableName) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		s := server.Ledger(t, "nowhere")
		if _, err := s.Check(t.Context()); !errors.Is(err, dynamo.ErrTable) || !strings.Contains(err.Error(), "no table nowhere in us-east-1") {
			t.Errorf("error %v", err)
		}
		if _, err := s.Put(t.Context(), ledger.Item{Key: ledger.Key{Partition: "p", Sort: "a"}, Data: []byte(`1`)}, 0, noon); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("a write to it: %v", err)
		}
	})
}

// TestTableThatMayNotBeDescribed tries what it may not read.
func TestTableThatMayNotBeDescribed(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	denied := func(table string) {
		for _, op := range []string{"DescribeTable", "DescribeTimeToLive"} {
			server.Order(-1, moto.Denied, moto.On(op, `"`+table+`"`))
		}
	}
	good := server.Table(t)
	denied(good)
	warnings, err := server.Ledger(t, good).Check(t.Context())
	if err != nil || len(warnings) != 2 {
		t.Errorf("a good table: %v, warnings %v; want none and two", err, warnings)
	}
	bad := moto.TableInput("denied-without-index")
	bad.AttributeDefinitions, bad.GlobalSecondaryIndexes = bad.AttributeDefinitions[:2], nil
	server.MakeTable(t, bad, "expires")
	denied(*bad.TableName)
	if _, err := server.Ledger(t, *bad.TableName).Check(t.Context()); !errors.Is(err, dynamo.ErrTable) || !strings.Contains(err.Error(), "no index instance") {
		t.Errorf("a table without the index: %v", err)
	}
	denied("denied-nowhere")
	if _, err := server.Ledger(t, "denied-nowhere").Check(t.Context()); !errors.Is(err, dynamo.ErrTable) || !strings.Contains(err.Error(), "not there") {
		t.Errorf("no table at all: %v", err)
	}
	away := server.Table(t)
	server.Order(-1, moto.Broken, moto.On("", `"`+away+`"`))
	if _, err := server.Ledger(t, away).Check(t.Context()); !errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, dynamo.ErrTable) {
		t.Errorf("a table that is away: %v; nothing is known of its shape", err)
	}
}

// TestReleasesShareATable: the next release adds attributes and fields, and both go on.
func TestReleasesShareATable(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	claim := func(t *testing.T, held string) (*dynamo.Store, error) {
		s := server.Ledger(t, server.Table(t))
		if held != "" {
			k := dynamo.SchemaKey()
			if _, err := s.Put(t.Context(), ledger.Item{Key: k, Data: []byte(held)}, 0, noon); err != nil {
				t.Fatal(err)
			}
		}
		return s, s.Claim(t.Context(), "v0.1.0", noon)
	}
	for name, tt := range map[string]struct{ held, want, err string }{
		"a new table":    {"", `v0.1.0`, ""},
		"the next minor": {`{"major":1,"minor":7,"writer":"v0.9.0","later":true}`, `"later":true`, ""},
		"the next major": {`{"major":2,"minor":0,"writer":"v2.0.0"}`, "v2.0.0", "schema 2.0, written by v2.0.0, and this release knows only 1: upgrade the scaler"},
		"nonsense":       {`{"major":"x"}`, "x", "cannot be read"},
		"no number":      {`{}`, "{}", "says 0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := claim(t, tt.held)
			if errors.Is(err, dynamo.ErrTable) != (tt.err != "") || tt.err != "" && !strings.Contains(err.Error(), tt.err) || tt.err == "" && err != nil {
				t.Errorf("error %v, want %q in it", err, tt.err)
			}
			it, ok, err := s.Get(t.Context(), dynamo.SchemaKey(), noon)
			if err != nil || !ok || !strings.Contains(string(it.Data), tt.want) {
				t.Errorf("schema %s, %v; want %q kept", it.Data, err, tt.want)
			}
			// Whatever the number, a Lambda goes on: nothing but Claim looks at it.
			if _, _, err := ledger.PutNotice(t.Context(), s, "c", ledger.Notice{Instance: "i-1", Kind: "spot", FirstSeen: noon}, noon); err != nil {
				t.Errorf("a notice: %v", err)
			}
		})
	}
	t.Run("attributes of the next release stay", func(t *testing.T) {
		t.Parallel()
		table := server.Table(t)
		s := server.Ledger(t, table)
		k := ledger.Key{Partition: "c/claim", Sort: "u1"}
		if _, err := s.Put(t.Context(), ledger.Item{Key: k, Data: []byte(`{"name":"a"}`)}, 0, noon); err != nil {
			t.Fatal(err)
		}
		client := dynamodb.NewFromConfig(server.Config())
		key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: k.Partition}, "sk": &types.AttributeValueMemberS{Value: k.Sort}}
		_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &table, Key: key, UpdateExpression: aws.String("SET later = :l"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":l": &types.AttributeValueMemberN{Value: "7"}}})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Put(t.Context(), ledger.Item{Key: k, Data: []byte(`{"name":"b"}`)}, 1, noon); err != nil || v != 2 {
			t.Errorf("this release's write: version %d, %v", v, err)
		}
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := out.Item["later"].(*types.AttributeValueMemberN); !ok || n.Value != "7" {
			t.Errorf("the next release's attribute is %v", out.Item["later"])
		}
	})
}

// TestFailuresAreTold maps what AWS says to the errors of the port.
func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	for name, tt := range map[string]struct {
		fault moto.Fault
		times int
		err   error // nil: it is got over
		says  string
	}{
		"throttled for a moment":       {moto.Throttled, 3, nil, ""},
		"table overloaded for long":    {moto.Overloaded, -1, ledger.ErrUnavailable, "ProvisionedThroughputExceededException"},
		"service broken for a moment":  {moto.Broken, 2, nil, ""},
		"service unavailable for long": {moto.Unavailable, -1, ledger.ErrUnavailable, "ServiceUnavailable"},
		"cut before the work":          {moto.CutBefore, 2, nil, ""},
		"cut after the work, twice":    {moto.CutAfter, 2, nil, ""},
		"half an answer":               {moto.HalfAnswer, 2, nil, ""},
		"never a whole answer":         {moto.HalfAnswer, -1, ledger.ErrUnavailable, ""},
		"a right was taken":            {moto.Denied, -1, ledger.ErrUnavailable, "AccessDeniedException"},
		"credentials ran out":          {moto.Expired, -1, ledger.ErrUnavailable, "ExpiredTokenException"},
		"refused as invalid":           {moto.Fault{Status: 400, Code: "ValidationException"}, -1, ledger.ErrInvalid, "ordered by a test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := server.Table(t)
			s := server.Ledger(t, table)
			if _, err := s.Put(t.Context(), ledger.Item{Key: ledger.Key{Partition: "p", Sort: "a"}, Data: []byte(`0`)}, 0, noon); err != nil {
				t.Fatal(err)
			}
			var rule *moto.Rule
			for what, call := range map[string]func() error{
				"put": func() error {
					v, err := s.Put(t.Context(), ledger.Item{Key: ledger.Key{Partition: "p", Sort: "a"}, Data: []byte(`1`)}, 1, noon)
					if err == nil && v != 2 {
						t.Errorf("put: version %d, want 2", v)
					}
					return err
				},
				"transact": func() error {
					return s.Transact(t.Context(), []ledger.PutOp{
						{Item: ledger.Item{Key: ledger.Key{Partition: "q", Sort: "a"}, Data: []byte(`1`)}},
						{Item: ledger.Item{Key: ledger.Key{Partition: "q", Sort: "b"}, Data: []byte(`1`)}, Expect: ledger.Any},
					}, noon)
				},
				"query": func() error {
					_, err := s.Query(t.Context(), "p", "", noon)
					return err
				},
			} {
				rule = server.Order(tt.times, tt.fault, moto.On("", `"`+table+`"`))
				err := call()
				rule.End()
				if !errors.Is(err, tt.err) || tt.err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: %v; want %v that says %q", what, err, tt.err, tt.says)
				}
				if rule.Met() == 0 {
					t.Errorf("%s met no fault", what)
				}
			}
		})
	}
}

// TestTheCallersTimeEnds: a call never takes longer than its context, and says that the store was not there.
func TestTheCallersTimeEnds(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	table := server.Table(t)
	s := server.Ledger(t, table)
	server.Order(-1, moto.Throttled, moto.On("", `"`+table+`"`))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err := s.Get(ctx, ledger.Key{Partition: "p", Sort: "a"}, noon)
	if !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("error %v, want unavailable", err)
	}
}
