package moto

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const childEnv = "WEIR_MOTO_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		s, err := start(os.Getenv(Env))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.cmd.Process.Pid)
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

// TestEndsWithWhoeverStartedIt: nothing is left, whatever happens to a test.
func TestEndsWithWhoeverStartedIt(t *testing.T) {
	t.Parallel()
	if os.Getenv(Env) == "" {
		t.Skipf("no moto: set %s", Env)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatalf("the parent said %q", lines.Text())
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as it says
	for deadline := time.Now().Add(time.Minute); ; {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("moto, process %d, lives a minute after its parent was killed", pid)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
