package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/weir-project/weir/lambda/deploy/custom"
)

// lookupTime bounds the question whether the cluster is there: without an answer it counts as there.
const lookupTime = 10 * time.Second

// gone says why there is nothing to remove the release from: EKS knows no cluster of that
// name, or one with another API server, which is a new one. It is empty where the cluster is
// there or where that cannot be told, so that a failure to reach it is not taken for its end.
func (d *deployer) gone(ctx context.Context, p custom.Properties) string {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(d.regionOf(p)))
	if err != nil {
		d.log.Warn("whether the cluster is there cannot be told", "cluster", p.ClusterName, "error", err.Error())
		return ""
	}
	out, err := eks.NewFromConfig(cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(p.ClusterName)})
	var missing *ekstypes.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return fmt.Sprintf("cluster %s does not exist any more, and the release has gone with it", p.ClusterName)
	case err != nil:
		d.log.Warn("whether the cluster is there cannot be told", "cluster", p.ClusterName, "error", err.Error())
		return ""
	case out.Cluster == nil || out.Cluster.Endpoint == nil: // it is being made
		return ""
	}
	if now := *out.Cluster.Endpoint; !strings.EqualFold(strings.TrimSuffix(now, "/"), strings.TrimSuffix(p.Endpoint, "/")) {
		return fmt.Sprintf("the cluster %s of today has another API server, %s: that of the release does not exist any more", p.ClusterName, now)
	}
	return ""
}
