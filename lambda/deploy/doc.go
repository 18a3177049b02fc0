// Command deploy is the AWS Lambda (provided.al2023, built as bootstrap) behind the
// custom resource of CloudFormation that installs, upgrades and removes Weir in an EKS
// cluster: the image into the stack's registry, the definitions, then the chart. The
// stack of infra/cdk makes it; it works in any other template as well.
//
// # The resource
//
// ServiceToken is the ARN of the function. All properties are text:
//
//	clusterName           required
//	endpoint              required: URL of the API server
//	certificateAuthority  required: base64, as EKS gives it
//	region                default: the function's own
//	namespace             default weir-system; made if it is not there
//	values                of the chart, as JSON text; not clusterName and image
//	image                 an existing image, REPOSITORY@sha256:… or REPOSITORY:TAG
//	imageRepository       where to push the carried image instead
//	chartVersion          default: of the carried chart
//	revision              any text; another one asks for an update
//	wait                  true (default): until the pods are ready. false: until all objects are accepted
//
// Attributes: Release, Namespace, Revision, ChartVersion, Image, DefinitionsLeftAlone.
//
// # What becomes of an event
//
//   - Create installs. If that fails, it leaves nothing but definitions.
//   - Update upgrades. One that fails stays failed until the next: CloudFormation's
//     rollback is an update to the earlier properties. chartVersion may then name a version
//     that the function does not carry any more: it is taken from the release's history.
//   - Delete uninstalls, and deletes the namespace if it was made here and is empty. No
//     definition, NodePool, NodeClaim or EC2NodeClass is ever deleted.
//   - Delete of a cluster that is not there any more, or that is another one of the same
//     name, is done, with that as its reason.
//   - An answer is sent in any case, before the function's own time is over.
//   - What a run that was ended half way has left is repaired by the next.
//
// # What it needs
//
// Beside the binary: charts/weir and charts/weir-crds (infra/chart and infra/chart-crds),
// and image, the layout of make image, where imageRepository is used. make lambda-deploy
// puts them together.
//
// Fifteen minutes, 1 GB of memory, and Lambda's own two repetitions of asynchronous
// calls, which end what a killed run began. In AWS only the rights to push to the
// repository and to describe the cluster; in the cluster an access entry with AmazonEKSClusterAdminPolicy, because
// the chart has ClusterRoles, which RBAC lets only somebody make who holds every right in
// them or may escalate. The API server must be in reach, and so must S3, where the
// answers go.
//
// Two runs for one release at a time are not guarded against here: CloudFormation sends one
// request after the other, and the function has one concurrent run, unless the account has
// none to reserve.
//
// # Rooms
//
// custom speaks CloudFormation's protocol, cluster reaches the API server and keeps
// definitions and namespace, release is Helm, image pushes. This package puts them in
// order. It is a module of its own, so that Helm stays out of the product's.
package main
