package raw

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoCluster says that neither a kubeconfig nor the service account of a pod names a cluster.
var ErrNoCluster = errors.New("no kubeconfig names a cluster (--kubeconfig, KUBECONFIG or ~/.kube/config), and this is no pod")

// Config reads a kubeconfig: the path, else those of KUBECONFIG, else ~/.kube/config, else
// the service account of the pod that this runs in; ErrNoCluster where there is none of
// these. An empty context is its current one.
func Config(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNoCluster
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.UserAgent = "weir"
	return cfg, nil
}

// Client talks to the API server in raw JSON.
func Client(cfg *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // Status, in which errors come
	c := rest.CopyConfig(cfg)
	c.GroupVersion, c.APIPath = &schema.GroupVersion{}, "/"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", cfg.Host, err)
	}
	return api, nil
}

// Bytes is the body of an answer, or what the API server said against it.
func Bytes(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}
