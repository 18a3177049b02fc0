// Command image puts the scaler and its strategies into an OCI image for several
// architectures, without a container engine and without a base image.
//
// In: folders of static binaries, one for each architecture. Out: an OCI image layout
// on disk whose index.json names one image index; tools that read layouts (crane,
// skopeo, the CDK app's deployment) push it as it is. The same binaries, version and
// date always give the same digest: files are sorted, owned by root, and dated
// by SOURCE_DATE_EPOCH, which defaults to the epoch itself.
//
// The image holds the binaries, the certificate authorities of Mozilla's programme
// (the AWS endpoints are verified with them), a user without privileges, and the
// folders that the scaler writes to. There is no shell and no package manager.
//
// Beside the layout is, for each architecture, a bill of materials in CycloneDX JSON:
// the programs with their hashes, every module that is linked into them, Go's standard
// library, and the certificate authorities.
//
// The program must not build the binaries, talk to a registry, or run anything.
package main
