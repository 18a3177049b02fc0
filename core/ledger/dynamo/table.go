package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/weir-project/weir/core/ledger"
)

// ErrTable says that the table is none that a ledger can be kept in: it is not there,
// has another shape, or was written by a release that is too new.
var ErrTable = errors.New("ledger table cannot be used")

// Schema is the version of what is in a table. Within one major number records and
// attributes are only ever added, so releases share the table whatever their minor
// number is.
type Schema struct {
	Major  int       `json:"major"`
	Minor  int       `json:"minor"`  // highest of those that have used the table
	Writer string    `json:"writer"` // release that set it
	At     time.Time `json:"at"`
}

// Major and Minor are what this release writes.
const (
	Major = 1
	Minor = 0
)

// SchemaKey names the Schema of a table.
func SchemaKey() ledger.Key { return ledger.Key{Partition: "schema", Sort: "ledger"} }

// Check looks at the table's shape and says all that is wrong with it, wrapped in
// ErrTable. What could not be looked at for lack of a right is answered as warnings; it
// is then tried whether keys and index answer. An error that is ledger.ErrUnavailable
// says nothing about the table.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	call, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var wrong []string
	described, err := s.client.DescribeTable(call, &dynamodb.DescribeTableInput{TableName: &s.table})
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%w: there is no table %s in %s", ErrTable, s.table, s.region)
	case denied(err):
		warnings = append(warnings, fmt.Sprintf("the shape of table %s was only tried, not read: dynamodb:DescribeTable is not allowed", s.table))
		if wrong, err = s.try(ctx); err != nil {
			return warnings, err
		}
	case err != nil:
		return nil, fmt.Errorf("describing table %s: %w", s.table, explain(ctx, err))
	default:
		wrong = shape(described.Table)
	}
	ttl, err := s.client.DescribeTimeToLive(call, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	switch {
	case denied(err):
		warnings = append(warnings, fmt.Sprintf("whether table %s removes expired items is not known: dynamodb:DescribeTimeToLive is not allowed", s.table))
	case err != nil:
		return warnings, fmt.Errorf("describing the time to live of table %s: %w", s.table, explain(ctx, err))
	default:
		wrong = append(wrong, lifetime(ttl.TimeToLiveDescription)...)
	}
	if len(wrong) > 0 {
		return warnings, fmt.Errorf("%w: table %s in %s: %s", ErrTable, s.table, s.region, strings.Join(wrong, "; "))
	}
	return warnings, nil
}

func denied(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "AccessDenied")
}

// shape lists what is wrong with keys and index.
func shape(t *types.TableDescription) []string {
	var wrong []string
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
	default:
		wrong = append(wrong, fmt.Sprintf("it is %s, expected ACTIVE", t.TableStatus))
	}
	kinds := map[string]string{}
	for _, a := range t.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	if got, want := keys(t.KeySchema, kinds), "HASH pk (S), RANGE sk (S)"; got != want {
		wrong = append(wrong, fmt.Sprintf("its key is %s, expected %s", got, want))
	}
	for _, i := range t.GlobalSecondaryIndexes {
		if aws.ToString(i.IndexName) != IndexInstance {
			continue
		}
		if got, want := keys(i.KeySchema, kinds), "HASH instance (S)"; got != want {
			wrong = append(wrong, fmt.Sprintf("the key of its index %s is %s, expected %s", IndexInstance, got, want))
		}
		if i.Projection == nil || i.Projection.ProjectionType != types.ProjectionTypeAll {
			wrong = append(wrong, fmt.Sprintf("its index %s leaves attributes out, expected the projection ALL", IndexInstance))
		}
		return wrong
	}
	return append(wrong, fmt.Sprintf("it has no global secondary index named %s", IndexInstance))
}

func keys(schema []types.KeySchemaElement, kinds map[string]string) string {
	var out []string
	for _, role := range []types.KeyType{types.KeyTypeHash, types.KeyTypeRange} {
		for _, k := range schema {
			if name := aws.ToString(k.AttributeName); k.KeyType == role {
				out = append(out, fmt.Sprintf("%s %s (%s)", role, name, kinds[name]))
			}
		}
	}
	if len(out) == 0 {
		return "not told"
	}
	return strings.Join(out, ", ")
}

func lifetime(d *types.TimeToLiveDescription) []string {
	switch {
	case d == nil, d.TimeToLiveStatus != types.TimeToLiveStatusEnabled && d.TimeToLiveStatus != types.TimeToLiveStatusEnabling:
		return []string{fmt.Sprintf("its time to live is off, expected on, with the attribute %s", AttributeExpires)}
	case aws.ToString(d.AttributeName) != AttributeExpires:
		return []string{fmt.Sprintf("its time to live reads the attribute %s, expected %s", aws.ToString(d.AttributeName), AttributeExpires)}
	}
	return nil
}

// try asks for a record and for an instance that are not there; AWS refuses the
// questions where keys or index are of another shape.
func (s *Store) try(ctx context.Context) (wrong []string, err error) {
	var missing *types.ResourceNotFoundException
	_, err = s.get(ctx, SchemaKey())
	if errors.As(err, &missing) {
		return []string{"it is not there"}, nil
	}
	if errors.Is(err, ledger.ErrInvalid) {
		wrong, err = append(wrong, "its key is not pk and sk, both text"), nil
	}
	if err != nil {
		return wrong, err
	}
	_, err = s.ByInstance(ctx, "i-none", time.Now())
	if errors.Is(err, ledger.ErrInvalid) || errors.As(err, &missing) { // the table is there, so it is the index
		wrong, err = append(wrong, fmt.Sprintf("it has no index %s by the attribute %s", IndexInstance, AttributeInstance)), nil
	}
	return wrong, err
}

// Claim reads the table's schema, refuses a major number that this release does not
// know, and leaves its own numbers where they are higher. Only the scaler calls it: a
// Lambda of any release goes on.
func (s *Store) Claim(ctx context.Context, writer string, now time.Time) error {
	for range claimAttempts {
		held, version, ok, err := ledger.Load[Schema](ctx, s, SchemaKey(), now)
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax), errors.As(err, &kind):
			return fmt.Errorf("%w: table %s: its schema record cannot be read: %w", ErrTable, s.table, err)
		case err != nil:
			return err
		case ok && held.Major > Major:
			return fmt.Errorf("%w: table %s has schema %d.%d, written by %s, and this release knows only %d: upgrade the scaler, or use another table",
				ErrTable, s.table, held.Major, held.Minor, held.Writer, Major)
		case ok && (held.Major < 1 || held.Minor < 0):
			return fmt.Errorf("%w: table %s: its schema record says %d.%d", ErrTable, s.table, held.Major, held.Minor)
		case ok && (held.Major == Major && held.Minor >= Minor):
			return nil
		}
		next := Schema{Major: Major, Minor: Minor, Writer: writer, At: now}
		_, err = ledger.Save(ctx, s, SchemaKey(), next, ledger.Meta{}, version, now)
		if !errors.Is(err, ledger.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("writing the schema of table %s: %w", s.table, ledger.ErrConflict)
}

const claimAttempts = 5
