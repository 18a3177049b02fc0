package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-project/weir/lambda/deploy/custom"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	d, err := wire(log)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(2)
	}
	h := &custom.Handler{Deployer: d, Log: log, Client: &http.Client{}}
	lambda.Start(func(ctx context.Context, event cfn.Event) error { return h.Handle(ctx, event) })
}

func wire(log *slog.Logger) (*deployer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return newDeployer(filepath.Dir(self), os.Getenv("AWS_REGION"), log)
}
