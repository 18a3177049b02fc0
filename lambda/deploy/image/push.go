package image

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Reference is an image as the chart's values name it; one of Digest and Tag is set.
type Reference struct{ Repository, Digest, Tag string }

// String is the reference as one text.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Repository + "@" + r.Digest
	}
	return r.Repository + ":" + r.Tag
}

// Parse reads the reference of an existing image.
func Parse(s string) (Reference, error) {
	if repository, digest, ok := strings.Cut(s, "@"); ok {
		if _, err := name.NewDigest(s); err != nil {
			return Reference{}, fmt.Errorf("image %q: %w", s, err)
		}
		return Reference{Repository: repository, Digest: digest}, nil
	}
	t, err := name.NewTag(s, name.StrictValidation)
	if err != nil {
		return Reference{}, fmt.Errorf("image %q: %w", s, err)
	}
	return Reference{Repository: strings.TrimSuffix(s, ":"+t.TagStr()), Tag: t.TagStr()}, nil
}

// annotationRef names an image in a layout.
const annotationRef = "org.opencontainers.image.ref.name"

// tagLength is how much of a digest is in a tag, in hex digits.
const tagLength = 12

var notOfTags = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Push puts the image index of the layout in dir into the repository.
func Push(ctx context.Context, dir, repository string, credentials authn.Authenticator) (Reference, error) {
	index, digest, version, err := read(dir)
	if err != nil {
		return Reference{}, fmt.Errorf("image layout %s: %w", dir, err)
	}
	repo, err := name.NewRepository(repository, name.StrictValidation)
	if err != nil {
		return Reference{}, fmt.Errorf("repository %q: %w", repository, err)
	}
	done := Reference{Repository: repository, Digest: digest.String()}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuth(credentials), remote.WithUserAgent("weir-deploy")}
	_, err = remote.Head(repo.Digest(digest.String()), options...)
	if err == nil {
		return done, nil // an index is written after all that it names
	}
	if missing := (*transport.Error)(nil); !errors.As(err, &missing) || missing.StatusCode != http.StatusNotFound {
		return Reference{}, fmt.Errorf("looking for image %s: %w", done, err)
	}
	tag := repo.Tag(notOfTags.ReplaceAllString(version, "-") + "-" + digest.Hex[:tagLength])
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return Reference{}, fmt.Errorf("pushing image %s: %w", done, err)
	}
	return done, nil
}

// read gives the only image index of a layout, and the version that the layout calls it.
func read(dir string) (v1.ImageIndex, v1.Hash, string, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, v1.Hash{}, "", errors.New("there is none: the function was packed without the image of make image; set property image to an existing one")
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, v1.Hash{}, "", err
	}
	m, err := all.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, "", err
	}
	if len(m.Manifests) != 1 || !m.Manifests[0].MediaType.IsIndex() {
		return nil, v1.Hash{}, "", fmt.Errorf("it has %d entries, expected one image index", len(m.Manifests))
	}
	d := m.Manifests[0]
	index, err := all.ImageIndex(d.Digest)
	if err != nil {
		return nil, v1.Hash{}, "", err
	}
	return index, d.Digest, d.Annotations[annotationRef], nil
}

// Tokens is the call of ECR that gives credentials.
type Tokens interface {
	GetAuthorizationToken(ctx context.Context, in *ecr.GetAuthorizationTokenInput, options ...func(*ecr.Options)) (*ecr.GetAuthorizationTokenOutput, error)
}

// Credentials asks ECR for credentials to the account's registry.
func Credentials(ctx context.Context, client Tokens) (authn.Authenticator, error) {
	out, err := client.GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return nil, fmt.Errorf("credentials of the registry: %w", err)
	}
	if len(out.AuthorizationData) == 0 || out.AuthorizationData[0].AuthorizationToken == nil {
		return nil, errors.New("credentials of the registry: ECR has answered none")
	}
	b, err := base64.StdEncoding.DecodeString(*out.AuthorizationData[0].AuthorizationToken)
	if err != nil {
		return nil, errors.New("credentials of the registry: the token of ECR is not base64")
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return nil, errors.New("credentials of the registry: the token of ECR is not user:password")
	}
	return &authn.Basic{Username: user, Password: password}, nil
}
