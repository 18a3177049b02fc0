package aws_test

import (
	"os"
	"testing"

	"github.com/weir-project/weir/integration/aws/moto"
)

func TestMain(m *testing.M) { os.Exit(moto.Shared(m)) }
