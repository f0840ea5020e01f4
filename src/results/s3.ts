import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { type S3Place, s3Writer } from './s3-writer.ts'
import { checkKey, type ResultStore } from './store.ts'

/**
 * Results in a bucket: `s3://bucket/prefix`, with credentials, region and endpoint from the usual `AWS_…` variables. An
 * upload is invisible until it is completed, and completed only when the store holds every byte of it.
 */
export function s3Results(url: URL): ResultStore {
  const client = new S3Client({
    region: process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? 'us-east-1',
    // Servers of one's own seldom have a host name for each bucket.
    forcePathStyle: process.env.AWS_ENDPOINT_URL_S3 !== undefined || process.env.AWS_ENDPOINT_URL !== undefined,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 5,
  })
  const folder = url.pathname.replace(/^\/+|\/+$/g, '')
  const placeOf = (key: string): S3Place => {
    checkKey(key)
    return { Bucket: url.hostname, Key: folder === '' ? key : `${folder}/${key}` }
  }
  const abort = (is: (upload: { Key: string; startedMs: number }) => boolean) =>
    abortUploads(client, url.hostname, folder, is)
  return {
    create: async (key) => s3Writer(client, placeOf(key)),
    open: async (key, range) => {
      const Range = range && `bytes=${range.start}-${range.end}`
      const { Body } = await client.send(new GetObjectCommand({ ...placeOf(key), ...(Range && { Range }) }))
      return Body as Readable
    },
    remove: async (key) => void (await client.send(new DeleteObjectCommand(placeOf(key)))),
    abandon: async (key) => {
      const { Key } = placeOf(key)
      await abort((upload) => upload.Key === Key)
    },
    sweepTemporary: (before = Number.POSITIVE_INFINITY) => abort(({ startedMs }) => startedMs < before),
  }
}

/** Aborts those of the unfinished uploads that are meant; returns how many. */
async function abortUploads(
  client: S3Client,
  Bucket: string,
  folder: string,
  isMeant: (upload: { Key: string; startedMs: number }) => boolean,
): Promise<number> {
  let aborted = 0
  let after = {}
  for (let more = true; more; ) {
    const listing = new ListMultipartUploadsCommand({ Bucket, Prefix: folder === '' ? '' : `${folder}/`, ...after })
    const { Uploads = [], IsTruncated = false, NextKeyMarker, NextUploadIdMarker } = await client.send(listing)
    for (const { Key = '', UploadId = '', Initiated } of Uploads) {
      if (!isMeant({ Key, startedMs: Initiated?.getTime() ?? 0 })) continue
      await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }))
      aborted += 1
    }
    after = { KeyMarker: NextKeyMarker, UploadIdMarker: NextUploadIdMarker }
    more = IsTruncated
  }
  return aborted
}
