package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-project/weir/core/api/keys"
)

var (
	// GroupVersion is karpenter.sh/v1.
	GroupVersion = schema.GroupVersion{Group: keys.GroupKarpenter, Version: "v1"}
	// NodePoolKind and NodeClaimKind name the kinds of this package.
	NodePoolKind  = GroupVersion.WithKind(keys.KindNodePool)
	NodeClaimKind = GroupVersion.WithKind(keys.KindNodeClaim)
	// NodePools and NodeClaims name the resources as a dynamic client wants them.
	NodePools  = GroupVersion.WithResource("nodepools")
	NodeClaims = GroupVersion.WithResource("nodeclaims")

	// SchemeBuilder collects what AddToScheme adds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &NodePool{}, &NodePoolList{}, &NodeClaim{}, &NodeClaimList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
