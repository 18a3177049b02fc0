package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-project/weir/core/ledger"
)

// Get implements ledger.Store.
func (s *Store) Get(ctx context.Context, k ledger.Key, now time.Time) (ledger.Item, bool, error) {
	if err := ledger.CheckKey(k); err != nil {
		return ledger.Item{}, false, err
	}
	held, err := s.get(ctx, k)
	if err != nil || held == nil {
		return ledger.Item{}, false, err
	}
	it, err := decode(held)
	if err != nil || it.Expired(now) {
		return ledger.Item{}, false, err
	}
	return it, true, nil
}

// get is the item as it is stored, nil where there is none.
func (s *Store) get(ctx context.Context, k ledger.Key) (attributes, error) {
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	out, err := s.client.GetItem(call, &dynamodb.GetItemInput{
		TableName: &s.table, Key: keyOf(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, fmt.Errorf("reading %v: %w", k, explain(ctx, err))
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// Query implements ledger.Store.
func (s *Store) Query(ctx context.Context, partition, prefix string, now time.Time) ([]ledger.Item, error) {
	if partition == "" {
		return nil, s.alive(ctx)
	}
	in := &dynamodb.QueryInput{
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": AttributePartition},
		ExpressionAttributeValues: attributes{":k": text(partition)},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("#k = :k AND begins_with(#s, :s)")
		in.ExpressionAttributeNames["#s"] = AttributeSort
		in.ExpressionAttributeValues[":s"] = text(prefix)
	}
	out, err := s.pages(ctx, in, now)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", partition, err)
	}
	return out, nil
}

// ByInstance implements ledger.Store. The index follows the table within moments.
func (s *Store) ByInstance(ctx context.Context, instanceID string, now time.Time) ([]ledger.Item, error) {
	if instanceID == "" {
		return nil, s.alive(ctx)
	}
	out, err := s.pages(ctx, &dynamodb.QueryInput{
		IndexName:                 aws.String(IndexInstance),
		KeyConditionExpression:    aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": AttributeInstance},
		ExpressionAttributeValues: attributes{":k": text(instanceID)},
	}, now)
	if err != nil {
		return nil, fmt.Errorf("listing records of %s: %w", instanceID, err)
	}
	slices.SortFunc(out, func(a, b ledger.Item) int { // the index has no order of its own
		if c := strings.Compare(a.Partition, b.Partition); c != 0 {
			return c
		}
		return strings.Compare(a.Sort, b.Sort)
	})
	return out, nil
}

// pages reads a list to its end. Each page has the time of a call, the list that of its
// context.
func (s *Store) pages(ctx context.Context, in *dynamodb.QueryInput, now time.Time) ([]ledger.Item, error) {
	in.TableName = &s.table
	var out []ledger.Item
	for {
		page, err := s.page(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, held := range page.Items {
			it, err := decode(held)
			if err != nil {
				return nil, err
			}
			if !it.Expired(now) {
				out = append(out, it)
			}
		}
		if len(page.LastEvaluatedKey) == 0 {
			return out, nil
		}
		in.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

func (s *Store) page(ctx context.Context, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	page, err := s.client.Query(call, in)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return page, nil
}

func (s *Store) alive(ctx context.Context) error {
	_, cancel, err := s.begin(ctx)
	if err == nil {
		cancel()
	}
	return err
}
