package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-project/weir/core/ledger"
)

// update is one conditional write, for a call of its own or within a transaction.
type update struct {
	expression, condition string
	names                 map[string]string
	values                attributes
}

// newUpdate writes the item over the version expected, under the id of the write. The
// condition fails for a write that was done already.
func newUpdate(it ledger.Item, expect int64, id string, now time.Time) update {
	u := update{
		names: map[string]string{
			"#version": attributeVersion, "#data": attributeData, "#instance": AttributeInstance, "#until": attributeUntil,
			"#expires": AttributeExpires, "#write": attributeWrite, "#before": attributeBefore,
		},
		values: attributes{
			":zero": number(0), ":one": number(1), ":none": text("-"), ":data": data(it.Data), ":write": text(id),
		},
	}
	set := []string{
		"#version = if_not_exists(#version, :zero) + :one", "#data = :data",
		"#before = if_not_exists(#write, :none)", "#write = :write",
	}
	var remove []string
	if it.Instance != "" {
		set, u.values[":instance"] = append(set, "#instance = :instance"), text(it.Instance)
	} else {
		remove = append(remove, "#instance")
	}
	if !it.Expires.IsZero() {
		set = append(set, "#until = :until", "#expires = :expires")
		u.values[":until"], u.values[":expires"] = instant(it.Expires), removal(it.Expires)
	} else {
		remove = append(remove, "#until", "#expires")
	}
	u.expression = "SET " + strings.Join(set, ", ")
	if len(remove) > 0 {
		u.expression += " REMOVE " + strings.Join(remove, ", ")
	}
	u.condition = "(attribute_not_exists(#write) OR #write <> :write) AND (attribute_not_exists(#before) OR #before <> :write)"
	switch expect {
	case ledger.Any:
	case 0:
		u.names["#pk"] = AttributePartition
		u.values[":now"] = instant(now)
		u.condition += " AND (attribute_not_exists(#pk) OR #until <= :now)"
	default:
		u.values[":expect"], u.values[":now"] = number(expect), instant(now)
		u.condition += " AND #version = :expect AND (attribute_not_exists(#until) OR #until > :now)"
	}
	return u
}

// newWrite is an id that no other write has.
func newWrite() string { return rand.Text() }

// done says whether the item that a condition failed on is what the write made of it,
// or what one other write made of that, and answers the version the write made.
func done(held attributes, id string) (version int64, ok bool) {
	r := &reader{from: held}
	v := r.number(attributeVersion).Int64()
	switch id {
	case r.text(attributeWrite, true):
		return v, r.err == nil
	case r.text(attributeBefore, true):
		return v - 1, r.err == nil
	}
	return 0, false
}

// Put implements ledger.Store.
func (s *Store) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (int64, error) {
	if err := ledger.CheckItem(it); err != nil {
		return 0, err
	}
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	id := newWrite()
	u := newUpdate(it, expect, id, now)
	in := &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: keyOf(it.Key), UpdateExpression: &u.expression, ConditionExpression: &u.condition,
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if expect <= 0 { // else the next version is known
		in.ReturnValues = types.ReturnValueUpdatedNew
	}
	out, err := s.client.UpdateItem(call, in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &failed):
		if version, ok := done(failed.Item, id); ok {
			return version, nil
		}
		return 0, fmt.Errorf("putting %v: %w", it.Key, ledger.ErrConflict)
	case err != nil:
		return 0, fmt.Errorf("putting %v: %w", it.Key, explain(ctx, err))
	case expect > 0:
		return expect + 1, nil
	}
	r := &reader{from: out.Attributes}
	version := r.number(attributeVersion).Int64()
	if r.err != nil {
		return 0, fmt.Errorf("putting %v: the answer: %w", it.Key, r.err)
	}
	return version, nil
}

// Transact implements ledger.Store.
func (s *Store) Transact(ctx context.Context, puts []ledger.PutOp, now time.Time) error {
	if err := ledger.CheckTransact(puts); err != nil {
		return err
	}
	switch len(puts) {
	case 0:
		return s.alive(ctx)
	case 1:
		_, err := s.Put(ctx, puts[0].Item, puts[0].Expect, now)
		return err
	}
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	id := newWrite()
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: &id}
	for _, p := range puts {
		u := newUpdate(p.Item, p.Expect, id, now)
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table, Key: keyOf(p.Item.Key), UpdateExpression: &u.expression, ConditionExpression: &u.condition,
			ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	_, err = s.client.TransactWriteItems(call, in)
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		if err != nil {
			return fmt.Errorf("putting %d records: %w", len(puts), explain(ctx, err))
		}
		return nil
	}
	return s.cancelled(ctx, puts, id, err, cancelled.CancellationReasons)
}

// cancelled reads why a transaction was not carried out. All or none were written, so
// one item that carries the id says that all did.
func (s *Store) cancelled(ctx context.Context, puts []ledger.PutOp, id string, err error, reasons []types.CancellationReason) error {
	conflict := ""
	for i, r := range reasons {
		if aws.ToString(r.Code) != "ConditionalCheckFailed" {
			continue
		}
		if _, ok := done(r.Item, id); ok {
			return nil
		}
		if conflict == "" && i < len(puts) {
			conflict = fmt.Sprint(puts[i].Item.Key)
		}
	}
	if conflict != "" {
		return fmt.Errorf("putting %s, with %d records in all: %w", conflict, len(puts), ledger.ErrConflict)
	}
	return fmt.Errorf("putting %d records: %w", len(puts), explain(ctx, err))
}

// Delete implements ledger.Store.
func (s *Store) Delete(ctx context.Context, k ledger.Key, expect int64) error {
	if err := ledger.CheckKey(k); err != nil {
		return err
	}
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(k)}
	if expect != ledger.Any {
		// The write that made the version is part of the condition, so that a repeated call
		// never removes what somebody put in its place under the same number.
		held, err := s.get(ctx, k)
		if err != nil || held == nil {
			return err
		}
		r := &reader{from: held}
		version, write := r.number(attributeVersion).Int64(), r.text(attributeWrite, true)
		if r.err != nil {
			return fmt.Errorf("deleting %v: %w", k, r.err)
		}
		if version != expect {
			return fmt.Errorf("deleting %v: %w", k, ledger.ErrConflict)
		}
		in.ConditionExpression = aws.String("attribute_not_exists(#pk) OR (#version = :expect AND #write = :write)")
		in.ExpressionAttributeNames = map[string]string{"#pk": AttributePartition, "#version": attributeVersion, "#write": attributeWrite}
		in.ExpressionAttributeValues = attributes{":expect": number(expect), ":write": text(write)}
	}
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = s.client.DeleteItem(call, in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("deleting %v: %w", k, ledger.ErrConflict)
	case err != nil:
		return fmt.Errorf("deleting %v: %w", k, explain(ctx, err))
	}
	return nil
}
