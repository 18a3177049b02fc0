package dynamo

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-project/weir/core/ledger"
)

type attributes = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func keyOf(k ledger.Key) attributes {
	return attributes{AttributePartition: text(k.Partition), AttributeSort: text(k.Sort)}
}

// data is text where it can be, so that people can read it in the console.
func data(b json.RawMessage) types.AttributeValue {
	if utf8.Valid(b) {
		return text(string(b))
	}
	return &types.AttributeValueMemberB{Value: append([]byte(nil), b...)}
}

var billion = big.NewInt(int64(time.Second))

// instant is in nanoseconds since 1970, for all times that Go knows.
func instant(t time.Time) types.AttributeValue {
	n := big.NewInt(t.Unix())
	n.Mul(n, billion).Add(n, big.NewInt(int64(t.Nanosecond())))
	return &types.AttributeValueMemberN{Value: n.String()}
}

// removal is the second after which DynamoDB may remove what expires at t.
func removal(t time.Time) types.AttributeValue {
	return number(t.Add(ledger.SweepGrace + time.Second - 1).Unix())
}

// reader reads the attributes of an item and keeps the first mistake.
type reader struct {
	from attributes
	err  error
}

func (r *reader) fail(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s is %T, expected %s", name, r.from[name], want)
	}
}

func (r *reader) text(name string, required bool) string {
	switch v := r.from[name].(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case nil:
		if !required {
			return ""
		}
	}
	r.fail(name, "text")
	return ""
}

func (r *reader) number(name string) *big.Int {
	v, ok := r.from[name].(*types.AttributeValueMemberN)
	if !ok {
		r.fail(name, "a number")
		return new(big.Int)
	}
	n, ok := new(big.Int).SetString(v.Value, 10)
	if !ok {
		r.fail(name, "a whole number")
		return new(big.Int)
	}
	return n
}

func (r *reader) data() json.RawMessage {
	switch v := r.from[attributeData].(type) {
	case *types.AttributeValueMemberS:
		return json.RawMessage(v.Value)
	case *types.AttributeValueMemberB:
		return json.RawMessage(v.Value)
	}
	r.fail(attributeData, "text or bytes")
	return nil
}

// decode reads an item of the table; attributes that it does not know are left alone.
func decode(from attributes) (ledger.Item, error) {
	r := &reader{from: from}
	it := ledger.Item{
		Key:      ledger.Key{Partition: r.text(AttributePartition, true), Sort: r.text(AttributeSort, true)},
		Version:  r.number(attributeVersion).Int64(),
		Instance: r.text(AttributeInstance, false),
		Data:     r.data(),
	}
	if _, expires := from[attributeUntil]; expires {
		sec, nsec := new(big.Int).DivMod(r.number(attributeUntil), billion, new(big.Int))
		it.Expires = time.Unix(sec.Int64(), nsec.Int64()).UTC()
	}
	if r.err != nil {
		return ledger.Item{}, fmt.Errorf("record %v is damaged: %w", it.Key, r.err)
	}
	return it, nil
}
