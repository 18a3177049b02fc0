package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/catalogue"
	aws "github.com/weir-project/weir/core/cloud/aws"
	"github.com/weir-project/weir/core/cloud/aws/classes"
	"github.com/weir-project/weir/core/cloud/aws/inventory"
	"github.com/weir-project/weir/core/cloud/aws/permit"
	"github.com/weir-project/weir/core/cloud/aws/pricelist"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/cloud/aws/zonalshift"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/kube"
)

// How often what AWS has is read again.
const (
	typesEvery    = 12 * time.Hour
	pricesEvery   = time.Hour
	readAgain     = 30 * time.Second // after an error, while nothing is known
	collectEvery  = 30 * time.Minute
	factsWithin   = 30 * time.Second
	versionsEvery = 5 * time.Minute
)

// openAWS makes the provider for EC2. It asks the cluster and EKS for what a node must know to join.
func openAWS(ctx context.Context, c *config.Config, clients *kube.Clients, server *rest.Config, called func(sdkconf.Call), log *zap.Logger) (*backend, error) {
	settings, err := sdkconf.Load(ctx, sdkconf.Options{Region: c.Region, Program: "weir-scaler", AttemptTimeout: time.Minute, Pacer: sdkconf.NewPacer(0), OnCall: called})
	if err != nil {
		return nil, usageError{err}
	}
	facts, arn, err := clusterFacts(ctx, c, clients, server, settings, log)
	if err != nil {
		return nil, err
	}
	v := &versions{clients: clients}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	var prices inventory.ListPrices
	if region := pricelist.Endpoint(c.Region); region != "" {
		prices = pricelist.New(pricing.NewFromConfig(settings, func(o *pricing.Options) { o.Region = region }), c.Region)
	}
	api := ec2.NewFromConfig(settings)
	overhead := c.Nodes.VMMemoryOverheadPercent
	provider := aws.New(aws.Config{
		Region: c.Region, Cluster: facts, Reservations: c.FeatureGates.ReservedCapacity, Now: time.Now,
		Catalogue: catalogue.Options{VMMemoryOverheadPercent: &overhead, ReservedENIs: int64(c.Nodes.ReservedENIs), PrefixDelegation: c.Nodes.PrefixDelegation},
	}, api, prices)
	var checker classes.Checker
	if c.Cloud.DryRun {
		checker = permit.New(api, c.Cluster)
	}
	keeper := classes.New(classes.Config{
		Objects: clients.NodeClasses(), Provider: provider, Checker: checker, CA: facts.CA, Now: time.Now,
		Resolver: resolve.New(resolve.Config{Cluster: c.Cluster, Region: c.Region, Version: v.get, Reservations: c.FeatureGates.ReservedCapacity, Facts: facts},
			api, ssm.NewFromConfig(settings), iam.NewFromConfig(settings)),
		Waits: func(class *awsv1.EC2NodeClass, n int) {
			log.Info("a class that is being deleted waits for its claims", zap.String("class", class.Name), zap.Int("claims", n))
		},
		Failed: func(class string, err error) { log.Warn("EC2NodeClass", zap.String("class", class), zap.Error(err)) },
	})
	return &backend{
		provider: provider, queue: sqs.NewFromConfig(settings), status: api,
		run: func(ctx context.Context) {
			var wg sync.WaitGroup
			wg.Go(func() { readStock(ctx, provider, log) })
			wg.Go(func() { v.follow(ctx, log) })
			wg.Wait()
		},
		lead: func(ctx context.Context) {
			var wg sync.WaitGroup
			wg.Go(func() { keeper.Run(ctx) })
			wg.Go(func() { collect(ctx, provider, keeper, log) })
			if arn != "" {
				wg.Go(func() { followShifts(ctx, arczonalshift.NewFromConfig(settings), arn, provider, log) })
			}
			wg.Wait()
		},
	}, nil
}

// every calls f at once and then after what it answers, until the context ends.
func every(ctx context.Context, f func() time.Duration) {
	t := time.NewTimer(f())
	defer t.Stop()
	for {
		select {
		case <-t.C:
			t.Reset(f())
		case <-ctx.Done():
			return
		}
	}
}

// readStock keeps types and prices up to date.
func readStock(ctx context.Context, p *aws.Provider, log *zap.Logger) {
	var types time.Time
	every(ctx, func() time.Duration {
		all := time.Since(types) >= typesEvery
		err := p.Refresh(ctx, all)
		if ctx.Err() != nil {
			return pricesEvery
		}
		if err != nil {
			log.Warn("prices and types of AWS: what could not be read stays as it was", zap.Error(err))
		}
		if !p.Known() {
			return readAgain
		}
		if all && err == nil {
			types = time.Now()
		}
		return pricesEvery
	})
}

// followShifts keeps what is sold out of zones that the cluster is shifted away from. Without the right to ask it ends.
func followShifts(ctx context.Context, api zonalshift.ARC, arn string, p *aws.Provider, log *zap.Logger) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var before []string
	every(ctx, func() time.Duration {
		away, again, err := zonalshift.Read(ctx, api, arn, time.Now())
		switch {
		case ctx.Err() != nil:
			return zonalshift.Every
		case again == 0:
			log.Info("zonal shifts are not followed: the role may not read them", zap.Error(err))
			p.SetShifted(nil)
			stop()
			return zonalshift.EveryOther
		case err != nil:
			log.Warn("zonal shifts: what is known stays as it was", zap.Error(err))
			return again
		}
		p.SetShifted(away)
		if !slices.Equal(away, before) {
			log.Info("zonal shift", zap.Strings("awayFrom", away))
			before = away
		}
		return again
	})
}

// collect deletes launch templates and instance profiles that nobody uses.
func collect(ctx context.Context, p *aws.Provider, k *classes.Keeper, log *zap.Logger) {
	every(ctx, func() time.Duration {
		templates, err := p.CollectTemplates(ctx)
		if len(templates) > 0 {
			log.Info("launch templates deleted", zap.Strings("names", templates))
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("unused launch templates", zap.Error(err))
		}
		profiles, err := k.CollectProfiles(ctx)
		if len(profiles) > 0 {
			log.Info("instance profiles deleted", zap.Strings("names", profiles))
		}
		if err != nil && ctx.Err() == nil {
			log.Debug("unused instance profiles", zap.Error(err))
		}
		return collectEvery
	})
}

// clusterFacts is what user data tells a kubelet: from the configuration, else from EKS, else from the API server's own client.
func clusterFacts(ctx context.Context, c *config.Config, clients *kube.Clients, server *rest.Config, settings sdk.Config, log *zap.Logger) (facts userdata.Cluster, arn string, err error) {
	ctx, cancel := context.WithTimeout(ctx, factsWithin)
	defer cancel()
	out := userdata.Cluster{Name: c.Cluster, Endpoint: c.ClusterEndpoint, CA: c.ClusterCABundle}
	described, err := eks.NewFromConfig(settings).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.Cluster})
	switch {
	case err == nil && described.Cluster != nil:
		x := described.Cluster
		arn = sdk.ToString(x.Arn)
		out.Endpoint = cmp.Or(out.Endpoint, sdk.ToString(x.Endpoint))
		if x.CertificateAuthority != nil {
			out.CA = cmp.Or(out.CA, sdk.ToString(x.CertificateAuthority.Data))
		}
		if n := x.KubernetesNetworkConfig; n != nil {
			out.ServiceCIDR = cmp.Or(sdk.ToString(n.ServiceIpv4Cidr), sdk.ToString(n.ServiceIpv6Cidr))
		}
	case out.Endpoint == "":
		return out, arn, fmt.Errorf("the cluster's endpoint: none is configured (clusterEndpoint) and EKS does not tell: %w", err)
	default:
		log.Warn("EKS does not tell of the cluster: classes of AL2023 need its service CIDR and cannot be launched from", zap.Error(err))
	}
	if out.CA == "" && len(server.CAData) > 0 {
		out.CA = base64.StdEncoding.EncodeToString(server.CAData)
	}
	if out.CA == "" {
		return out, arn, errors.New("the cluster's certificate: none is configured (clusterCABundle) and neither EKS nor the client's settings tell it")
	}
	dns, err := clients.Core.CoreV1().Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{})
	switch {
	case err == nil && dns.Spec.ClusterIP == corev1.ClusterIPNone: // headless: there is no one address
	case err == nil:
		out.DNS = dns.Spec.ClusterIP
	case !apierrors.IsNotFound(err):
		return out, arn, fmt.Errorf("service kube-system/kube-dns: %w", err)
	}
	return out, arn, nil
}

// versions is the API server's version, read again as clusters are upgraded while the scaler runs.
type versions struct {
	clients *kube.Clients
	mu      sync.Mutex
	version string
}

func (v *versions) get() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version
}

func (v *versions) read(context.Context) error {
	info, err := v.clients.Core.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the API server's version: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version = info.GitVersion
	return nil
}

func (v *versions) follow(ctx context.Context, log *zap.Logger) {
	every(ctx, func() time.Duration {
		if err := v.read(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the version before stays in force", zap.Error(err))
		}
		return versionsEvery
	})
}
