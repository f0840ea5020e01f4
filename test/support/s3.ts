import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { freePort } from '../../src/serving/listeners.ts'
import { eventually } from './service.ts'

/** The reason to skip tests that need S3, or false if TEST_S3_URL is set or `versitygw` is in PATH. */
export const s3Missing: string | false =
  process.env.TEST_S3_URL !== undefined || spawnSync('versitygw', ['--version']).status === 0
    ? false
    : 'TEST_S3_URL is not set and versitygw is not installed'

/**
 * Creates an empty bucket on the S3 server at TEST_S3_URL or, if that is not set, on a new local server. Sets the
 * environment variables for the server.
 */
export async function s3Server(): Promise<{ url: string; env: Record<string, string>; stop: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-s3-'))
  const given = process.env.TEST_S3_URL
  const port = given ? 0 : await freePort()
  const env = {
    AWS_ENDPOINT_URL: given ?? `http://127.0.0.1:${port}`,
    AWS_REGION: process.env.AWS_REGION ?? 'us-east-1',
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID ?? 'plinth-test',
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY ?? 'plinth-test-secret',
  }
  Object.assign(process.env, env)
  const child = given ? undefined : startGateway(port, folder, env)
  const bucket = `plinth-${randomBytes(6).toString('hex')}`
  const client = new S3Client({ forcePathStyle: true, maxAttempts: 1 })
  await eventually('the S3 server makes a bucket', () =>
    client.send(new CreateBucketCommand({ Bucket: bucket })).then(
      () => true,
      () => false,
    ),
  )
  client.destroy()
  const stop = () => {
    child?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  return { url: `s3://${bucket}/reports/of this`.replaceAll(' ', '-'), env, stop }
}

function startGateway(port: number, folder: string, env: Record<string, string>): ChildProcess {
  const root = { ROOT_ACCESS_KEY: env.AWS_ACCESS_KEY_ID, ROOT_SECRET_KEY: env.AWS_SECRET_ACCESS_KEY }
  return spawn('versitygw', ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', folder], {
    env: { ...process.env, ...root },
    stdio: 'ignore',
  })
}
