// Run by npm after an installation, instead of npm's own warnings, which .npmrc disables: an old Node.js gets one for nearly
// every package, and again before each `npx`, although everything here runs on the Node.js that `npm ci` installs.
const { npm_command: command, npm_config_user_agent: agent = '' } = process.env
const needed = 24
const ofNpm = Number(/\bnode\/v(\d+)/.exec(agent)?.[1])
const here = process.versions.node
if (ofNpm < needed && ['ci', 'install'].includes(command)) {
  const text =
    Number.parseInt(here, 10) < needed
      ? `Node.js ${needed} is needed, and without development dependencies none is installed here`
      : `npm runs on Node.js ${ofNpm}; npm start, npm run and npx plinth use ${here}, which is installed here`
  process.stderr.write(`plinth: ${text}.\n`)
}
