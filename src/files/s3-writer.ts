import { createHash, hash } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { blocks } from './blocks.ts'
import { asUnavailable } from './s3-client.ts'
import type { ResultWriter } from './store.ts'

export interface S3Location {
  Bucket: string
  Key: string
}

interface Part {
  PartNumber: number
  ETag: string | undefined
  ChecksumSHA256: string
}

/** The size of an upload part. The largest result, 5 GiB, needs only 640 of the 10,000 parts allowed per upload. */
const partBytes = 8 * 1_024 * 1_024

/**
 * Uploads each part, with a SHA-256 that the store verifies, while the next part fills. Sends a result that fits into one
 * part in a single request.
 */
export function s3Writer(client: S3Client, location: S3Location): ResultWriter {
  const whole = createHash('sha256')
  const parts: Part[] = []
  let uploadId: string | undefined
  let sizeBytes = 0
  let uploading: Promise<void> = Promise.resolve()

  async function upload(bytes: Buffer, PartNumber: number): Promise<void> {
    uploadId ??= (await client.send(new CreateMultipartUploadCommand({ ...location, ChecksumAlgorithm: 'SHA256' })))
      .UploadId
    const ChecksumSHA256 = hash('sha256', bytes, 'base64')
    const part = { ...location, UploadId: uploadId, PartNumber, Body: bytes, ChecksumSHA256 }
    const { ETag } = await client.send(new UploadPartCommand(part))
    parts.push({ PartNumber, ETag, ChecksumSHA256 })
  }

  const gathered = blocks(partBytes, async (full) => {
    whole.update(full)
    sizeBytes += full.length
    await uploading
    uploading = upload(full, parts.length + 1)
    // The next `await` on `uploading` reports the failure.
    uploading.catch(() => {})
  })

  return {
    write: unlessAway(gathered.write),
    finish: unlessAway(async () => {
      const last = gathered.rest()
      whole.update(last)
      sizeBytes += last.length
      const sha256 = whole.digest('base64')
      await uploading
      if (uploadId !== undefined) {
        if (last.length > 0) await upload(last, parts.length + 1)
        const done = { ...location, UploadId: uploadId, MultipartUpload: { Parts: parts } }
        await client.send(new CompleteMultipartUploadCommand(done))
      } else await client.send(new PutObjectCommand({ ...location, Body: last, ChecksumSHA256: sha256 }))
      uploadId = undefined
      await expectSize(client, location, sizeBytes)
      return { sizeBytes, sha256 }
    }),
    discard: async () => {
      await uploading.catch(() => {})
      if (uploadId === undefined) return
      await client.send(new AbortMultipartUploadCommand({ ...location, UploadId: uploadId }))
      uploadId = undefined
    },
    sizeBytes: () => sizeBytes + gathered.rest().length,
  }
}

/** Wraps a function: its errors become `ResultsUnavailable` if a later retry may succeed. */
const unlessAway =
  <Args extends unknown[], Result>(run: (...args: Args) => Promise<Result>) =>
  (...args: Args): Promise<Result> =>
    run(...args).catch((error) => {
      throw asUnavailable(error)
    })

/** Checks that the size of the stored object equals the number of bytes sent. */
async function expectSize(client: S3Client, location: S3Location, sizeBytes: number): Promise<void> {
  const { ContentLength } = await client.send(new HeadObjectCommand(location))
  if (ContentLength !== sizeBytes) throw new Error(`The store has ${ContentLength} bytes, but ${sizeBytes} were sent`)
}
