package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Apart has a question answered by a process of its own: this program, started with
// the verb as its only argument, which must call Serve.
func Apart(ctx context.Context, verb string, q *Question) (*Answer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, verb)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	a := &Answer{}
	if err := json.Unmarshal(out.Bytes(), a); err != nil {
		return nil, fmt.Errorf("answer of the measuring process: %w", err)
	}
	return a, nil
}

// Serve answers the question on in with run.
func Serve(ctx context.Context, in io.Reader, out io.Writer, run func(context.Context, *Question) (*Answer, error)) error {
	q := &Question{}
	if err := json.NewDecoder(in).Decode(q); err != nil {
		return err
	}
	a, err := run(ctx, q)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(a)
}
