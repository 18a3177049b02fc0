package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
)

const (
	// maxAnswer is what CloudFormation takes at most, in bytes.
	maxAnswer = 4096
	// sendTimeout bounds one attempt, so that a connection that hangs leaves time for another.
	sendTimeout = 5 * time.Second
	// firstPause before the second attempt doubles with each.
	firstPause = 200 * time.Millisecond
)

// send puts the answer where the event says, again and again until the context ends.
func (h *Handler) send(ctx context.Context, event cfn.Event, a answer) error {
	body, err := encode(event, a)
	if err != nil {
		return err
	}
	for pause := firstPause; ; pause *= 2 {
		err := h.put(ctx, event.ResponseURL, body)
		if err == nil {
			return nil
		}
		h.Log.Warn("the answer was not taken", "request", event.RequestID, "error", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("answer to request %s could not be sent: %w", event.RequestID, err)
		case <-time.After(pause):
		}
	}
}

func (h *Handler) put(ctx context.Context, target string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	// Without a content type: the URL is signed for a request that has none.
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(body))
	if err != nil {
		return errors.New("ResponseURL is no URL") // which is a credential
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return withoutURL(err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s: %s", resp.Status, said)
	}
	return nil
}

// withoutURL takes the URL, which is a credential, out of an error of the HTTP client.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// encode is the answer as JSON, its reason cut to what CloudFormation takes.
func encode(event cfn.Event, a answer) ([]byte, error) {
	r := cfn.NewResponse(&event)
	r.Status, r.PhysicalResourceID, r.Data = cfn.StatusSuccess, a.id, a.attributes
	reason := []rune(a.note)
	if a.err != nil {
		r.Status, r.Data = cfn.StatusFailed, nil
		reason = []rune(a.err.Error())
	}
	for {
		r.Reason = string(reason)
		body, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("answer to request %s: %w", event.RequestID, err)
		}
		if len(body) <= maxAnswer || len(reason) == 0 {
			return body, nil
		}
		// A character takes six bytes at the most.
		cut := max(1, (len(body)-maxAnswer)/6)
		reason = append(reason[:max(0, len(reason)-cut-1)], '…')
		if len(reason) == 1 {
			reason = nil
		}
	}
}
