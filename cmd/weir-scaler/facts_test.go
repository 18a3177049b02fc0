package main

import (
	"errors"
	"net/http"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/kube"
)

// unreachable is the transport to an AWS that is not there.
type unreachable struct{}

func (unreachable) Do(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

// Kubelets are told the address of the cluster's DNS service, where it has one.
func TestAddressOfTheClusterDNS(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{"10.100.0.10": "10.100.0.10", corev1.ClusterIPNone: "", "": ""} {
		dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
		c := &config.Config{Cluster: "c", ClusterEndpoint: "https://x", ClusterCABundle: "Y2E="}
		settings := sdk.Config{Region: "us-east-1", HTTPClient: unreachable{}, Credentials: sdk.AnonymousCredentials{}, Retryer: func() sdk.Retryer { return sdk.NopRetryer{} }}
		got, _, err := clusterFacts(t.Context(), c, &kube.Clients{Core: fake.NewClientset(dns)}, &rest.Config{}, settings, zap.NewNop())
		if err != nil || got.DNS != want {
			t.Errorf("service with address %q: DNS %q, want %q, %v", ip, got.DNS, want, err)
		}
	}
}
