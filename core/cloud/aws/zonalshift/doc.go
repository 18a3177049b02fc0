// Package zonalshift reads which zones the cluster has been shifted away from.
//
// What comes in is the cluster's ARN; what goes out are the ids of zones that Application Recovery Controller moves traffic away
// from, by a person's zonal shift or an autoshift. Nothing is bought there meanwhile; what runs there is left alone. A cluster that
// is not registered there has no shifts; without the right to ask it is not asked again.
package zonalshift
