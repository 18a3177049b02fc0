package config

// PinnedImage says whether ref names an image by its content, as the field `image` of a
// strategy takes it: registry/repository@sha256: and 64 hexadecimal digits.
func PinnedImage(ref string) bool { return imageRef.MatchString(ref) }
