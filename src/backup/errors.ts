/** Thrown if the file is not a backup, is incomplete, or was altered. */
export class BackupBroken extends Error {
  override name = 'BackupBroken'
}

/** Thrown if the command cannot run in this situation; the message says what to change. */
export class BackupRefused extends Error {
  override name = 'BackupRefused'
  readonly exitCode = 2
}
