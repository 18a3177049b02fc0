package sdk

import (
	"context"
	"regexp"
	"strings"

	"google.golang.org/grpc/metadata"
)

// traceKey is the name of the header of W3C Trace Context, as gRPC metadata carries it.
const traceKey = "traceparent"

var traceForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

type traceValue struct{}

// TraceParent is the W3C traceparent of the call: version, trace id, id of the host's
// span and flags, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01. It is
// empty where the host gave none, or one that is malformed.
func TraceParent(ctx context.Context) string {
	if v, ok := ctx.Value(traceValue{}).(string); ok {
		return v
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get(traceKey) {
		if ValidTraceParent(v) {
			return v
		}
	}
	return ""
}

// WithTraceParent lets calls with the context carry a traceparent, over the wire and in
// process. A malformed one leaves the context as it is.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if !ValidTraceParent(parent) {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(traceKey, parent)
	return context.WithValue(metadata.NewOutgoingContext(ctx, md), traceValue{}, parent)
}

// ValidTraceParent says whether a text is a traceparent.
func ValidTraceParent(v string) bool {
	return traceForm.MatchString(v) && !strings.HasPrefix(v, "ff") && v[3:35] != strings.Repeat("0", 32) && v[36:52] != strings.Repeat("0", 16)
}
