package crds

import "embed"

// FS holds one CustomResourceDefinition per file.
//
//go:embed *.yaml
var FS embed.FS
