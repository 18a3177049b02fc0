package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Client asks a scaler. HTTP adds the token.
type Client struct {
	HTTP *http.Client
	URL  string // without Path
}

// StatusError is an answer that says no.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s (HTTP status %d)", e.Message, e.Code) }

// maxAnswer bounds an answer: logs of a thousand lines of 4 KiB, escaped.
const maxAnswer = 64 << 20

// List asks for all strategies.
func (c *Client) List(ctx context.Context) (*List, error) {
	var out List
	return &out, c.do(ctx, http.MethodGet, Path, nil, &out)
}

// Get asks for one strategy.
func (c *Client) Get(ctx context.Context, name string) (*Strategy, error) {
	var out Strategy
	return &out, c.do(ctx, http.MethodGet, Path+"/"+url.PathEscape(name), nil, &out)
}

// Logs asks for the lines from the one numbered after on, of these the last limit.
func (c *Client) Logs(ctx context.Context, name string, after int64, limit int) (*LogLines, error) {
	var out LogLines
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	return &out, c.do(ctx, http.MethodGet, Path+"/"+url.PathEscape(name)+"/logs?"+q.Encode(), nil, &out)
}

// Swap asks for another program. The answer means that it is wanted, not yet that it runs.
func (c *Client) Swap(ctx context.Context, name string, want SwapRequest) (*SwapAnswer, error) {
	var out SwapAnswer
	return &out, c.do(ctx, http.MethodPost, Path+"/"+url.PathEscape(name)+"/swap", want, &out)
}

func (c *Client) do(ctx context.Context, method, path string, body, answer any) (err error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, r)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("asking the scaler: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("asking the scaler: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = fmt.Sprintf("the scaler's answer is no answer of this interface: %.200q", text)
		}
		return &StatusError{Code: resp.StatusCode, Message: f.Error}
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("reading the scaler's answer: %w", err)
	}
	return nil
}
