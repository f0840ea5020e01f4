/** The file is no backup, is incomplete or was altered. */
export class BackupBroken extends Error {
  override name = 'BackupBroken'
}

/** The command cannot run like this; the message says what to change. */
export class BackupRefused extends Error {
  override name = 'BackupRefused'
  readonly exitCode = 2
}
