import type { Command } from 'commander'

/** Gives a command the options of a client of a service. */
export const asClient = (command: Command): Command =>
  command
    .option('--base-url <url>', 'where the service is (without it, that of these settings)')
    .option('--client-id <id>', 'the client to be; PLINTH_CLIENT_ID without it')
    .option('--client-secret <secret>', 'its secret; better in PLINTH_CLIENT_SECRET, where others do not see it')
