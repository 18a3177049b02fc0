package moto

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-project/weir/core/ledger/dynamo"
)

var tables atomic.Int64

// TableInput is the ledger's table as infra/cdk makes it.
func TableInput(name string) *dynamodb.CreateTableInput {
	key := func(attribute string, role types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(attribute), KeyType: role}
	}
	var attributes []types.AttributeDefinition
	for _, a := range []string{dynamo.AttributePartition, dynamo.AttributeSort, dynamo.AttributeInstance} {
		attributes = append(attributes, types.AttributeDefinition{AttributeName: aws.String(a), AttributeType: types.ScalarAttributeTypeS})
	}
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: attributes,
		KeySchema: []types.KeySchemaElement{key(dynamo.AttributePartition, types.KeyTypeHash), key(dynamo.AttributeSort, types.KeyTypeRange)},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(dynamo.IndexInstance), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			KeySchema: []types.KeySchemaElement{key(dynamo.AttributeInstance, types.KeyTypeHash)},
		}},
	}
}

// Table makes an empty table of the ledger that the test has for itself, and answers
// its name. Small tables keep moto's transactions fast.
func (s *Server) Table(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("weir-%d", tables.Add(1))
	s.MakeTable(t, TableInput(name), dynamo.AttributeExpires)
	return name
}

// MakeTable makes a table with a time to live on the attribute, where one is given.
func (s *Server) MakeTable(t testing.TB, in *dynamodb.CreateTableInput, ttl string) {
	t.Helper()
	client := dynamodb.NewFromConfig(s.Config())
	if _, err := client.CreateTable(t.Context(), in); err != nil {
		t.Fatalf("create table %s: %v", *in.TableName, err)
	}
	if ttl == "" {
		return
	}
	_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: in.TableName, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &ttl, Enabled: aws.Bool(true)},
	})
	if err != nil {
		t.Fatalf("time to live of table %s: %v", *in.TableName, err)
	}
}

// Ledger opens the table through this server.
func (s *Server) Ledger(t testing.TB, table string) *dynamo.Store {
	t.Helper()
	cfg := s.Config()
	store, err := dynamo.Open(t.Context(), dynamo.Options{Table: table, Config: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
