// Package image puts the image that the function carries into a registry.
//
// In: an OCI image layout on disk, as make image writes it, and a repository. Out: the
// reference by digest that the chart installs. The credentials are those of a registry of
// ECR, by GetAuthorizationToken; the endpoint of that call is the SDK's to know. What the
// repository already has is not sent again.
//
// The tag, for people, is the version and the beginning of the digest: a repository whose
// tags are immutable takes each build once.
package image
