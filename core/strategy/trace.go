package strategy

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/weir-project/weir/plugins/sdk"
)

// traced gives a call a span of its own in the trace of its context, or in a new one
// where there is none, as a W3C traceparent that strategies see (sdk.TraceParent). It
// answers the id of the trace.
func traced(ctx context.Context) (context.Context, string) {
	var id [24]byte
	_, _ = rand.Read(id[:]) // never fails
	trace, flags := hex.EncodeToString(id[:16]), "00"
	if parent := sdk.TraceParent(ctx); parent != "" {
		trace, flags = parent[3:35], parent[53:55]
	}
	return sdk.WithTraceParent(ctx, "00-"+trace+"-"+hex.EncodeToString(id[16:])+"-"+flags), trace
}

// verdicts counts the moves that an answer accepts and declines.
func verdicts(answer func() any) (accepted, declined int) {
	if answer == nil {
		return 0, 0
	}
	scores, ok := answer().(*sdk.ScoreAnswer)
	if !ok || scores == nil {
		return 0, 0
	}
	for _, v := range scores.Verdicts {
		if v.Accept {
			accepted++
		} else {
			declined++
		}
	}
	return accepted, declined
}
