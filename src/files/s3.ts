import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3'
import { type S3Clients, type S3Limits, s3Clients, s3Limits, within } from './s3-client.ts'
import { type S3Location, s3Writer } from './s3-writer.ts'
import { checkKey, isKey, type ResultStore, ResultsUnavailable } from './store.ts'

/**
 * Stores results in the bucket at `s3://bucket/prefix`, with the credentials, region and endpoint from the standard
 * `AWS_…` variables. An upload is invisible until it is completed, and it is completed only if the store has received
 * every byte. The methods reject with `ResultsUnavailable` if the store times out or cannot accept requests now.
 */
export function s3Results(url: URL, limits: S3Limits = s3Limits): ResultStore {
  const clients = s3Clients(limits)
  const { silentMs } = limits
  const folder = url.pathname.replace(/^\/+|\/+$/g, '')
  const locationOf = (key: string): S3Location => {
    checkKey(key)
    return { Bucket: url.hostname, Key: folder === '' ? key : `${folder}/${key}` }
  }
  const abort = (is: IsMeant) => abortUploads(clients, silentMs, { Bucket: url.hostname, folder }, is)
  return {
    create: async (key) => s3Writer(clients.uploads, locationOf(key)),
    open: async (key, range, signal) => {
      const Range = range && `bytes=${range.start}-${range.end}`
      const get = new GetObjectCommand({ ...locationOf(key), ...(Range && { Range }) })
      const { Body } = await within(silentMs, (options) => clients.downloads.send(get, options), signal)
      return timedReads(Body as Readable, silentMs)
    },
    keys: () => listKeys(clients, silentMs, { Bucket: url.hostname, Prefix: folder === '' ? '' : `${folder}/` }),
    remove: async (key) => {
      const removal = new DeleteObjectCommand(locationOf(key))
      await within(silentMs, (options) => clients.requests.send(removal, options))
    },
    abandon: async (key) => {
      const { Key } = locationOf(key)
      await abort((upload) => upload.Key === Key)
    },
    sweepTemporary: (before = Number.POSITIVE_INFINITY) => abort(({ startedMs }) => startedMs < before),
    probe: async () => {
      const head = new HeadBucketCommand({ Bucket: url.hostname })
      await within(silentMs, (options) => clients.requests.send(head, options))
    },
    space: async () => null,
  }
}

async function listKeys({ requests }: S3Clients, limitMs: number, location: { Bucket: string; Prefix: string }) {
  const keys: string[] = []
  let ContinuationToken: string | undefined
  do {
    const listing = new ListObjectsV2Command({ ...location, Delimiter: '/', ContinuationToken })
    const listed = await within(limitMs, (options) => requests.send(listing, options))
    keys.push(...(listed.Contents ?? []).map(({ Key = '' }) => Key.slice(location.Prefix.length)).filter(isKey))
    ContinuationToken = listed.NextContinuationToken
  } while (ContinuationToken !== undefined)
  return keys
}

type IsMeant = (upload: { Key: string; startedMs: number }) => boolean

/** Aborts the matching unfinished uploads; returns the number of aborted uploads. */
async function abortUploads(
  { requests }: S3Clients,
  limitMs: number,
  { Bucket, folder }: { Bucket: string; folder: string },
  isMeant: IsMeant,
): Promise<number> {
  let aborted = 0
  let after = {}
  for (let more = true; more; ) {
    const listing = new ListMultipartUploadsCommand({ Bucket, Prefix: folder === '' ? '' : `${folder}/`, ...after })
    const listed = await within(limitMs, (options) => requests.send(listing, options))
    const { Uploads = [], IsTruncated = false, NextKeyMarker, NextUploadIdMarker } = listed
    for (const { Key = '', UploadId = '', Initiated } of Uploads) {
      if (!isMeant({ Key, startedMs: Initiated?.getTime() ?? 0 })) continue
      const abortion = new AbortMultipartUploadCommand({ Bucket, Key, UploadId })
      await within(limitMs, (options) => requests.send(abortion, options))
      aborted += 1
    }
    after = { KeyMarker: NextKeyMarker, UploadIdMarker: NextUploadIdMarker }
    more = IsTruncated
  }
  return aborted
}

/**
 * Passes on a stream's bytes with a read timeout: fails with `ResultsUnavailable` if the next chunk takes longer than `ms`.
 * Does not count time during which the consumer does not read. Destroying the returned stream destroys the source.
 */
export function timedReads(source: Readable, ms: number): Readable {
  const chunks = source[Symbol.asyncIterator]()
  return new Readable({
    read() {
      const late = () => this.destroy(new ResultsUnavailable(`The store sent nothing for ${ms} ms`))
      const limit = setTimeout(late, ms)
      chunks
        .next()
        .then(
          ({ value, done }) => this.push(done ? null : value),
          (error) => this.destroy(error),
        )
        .finally(() => clearTimeout(limit))
    },
    destroy(error, done) {
      source.destroy()
      done(error)
    },
  })
}
