package kube

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
)

// ConnectOptions say how to reach the API server. Zero values mean the default
// written beside each.
type ConnectOptions struct {
	Kubeconfig string  // path; empty = KUBECONFIG, else the service account of the pod
	Context    string  // of the kubeconfig; empty = its current one
	QPS        float32 // 200 calls per second, on average
	Burst      int     // 300 calls at once
	UserAgent  string  // weir-scaler
}

// Configure reads the client configuration. Errors name the file.
func Configure(o ConnectOptions) (*rest.Config, error) {
	if o.Kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			return limits(cfg, o), nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return limits(cfg, o), nil
}

func limits(cfg *rest.Config, o ConnectOptions) *rest.Config {
	cfg.QPS, cfg.Burst, cfg.UserAgent = o.QPS, o.Burst, o.UserAgent
	if cfg.QPS == 0 {
		cfg.QPS = 200
	}
	if cfg.Burst == 0 {
		cfg.Burst = 300
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "weir-scaler"
	}
	return cfg
}

// PodNamespace is the namespace in which this process runs as a pod, or empty.
func PodNamespace() string {
	if ns := os.Getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Clients are connections to one API server that share one rate limit.
type Clients struct {
	Core      kubernetes.Interface
	karpenter rest.Interface // karpenter.sh/v1
	aws       rest.Interface // karpenter.k8s.aws/v1
}

// Connect makes the clients of a configuration; it does not call the server.
func Connect(cfg *rest.Config) (*Clients, error) {
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", cfg.Host, err)
	}
	core := rest.CopyConfig(cfg)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c := &Clients{}
	if c.Core, err = kubernetes.NewForConfigAndClient(core, hc); err != nil {
		return nil, fmt.Errorf("client of %s: %w", cfg.Host, err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	custom := func(gv schema.GroupVersion) (rest.Interface, error) {
		r := rest.CopyConfig(cfg)
		r.GroupVersion, r.APIPath = &gv, "/apis"
		r.ContentType, r.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		r.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		rc, err := rest.RESTClientForConfigAndClient(r, hc)
		if err != nil {
			return nil, fmt.Errorf("client of %s: %w", gv, err)
		}
		return rc, nil
	}
	if c.karpenter, err = custom(apiv1.GroupVersion); err != nil {
		return nil, err
	}
	if c.aws, err = custom(awsv1.GroupVersion); err != nil {
		return nil, err
	}
	return c, nil
}
